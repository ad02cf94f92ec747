// Package lines exchanges messages with a command, one per line. A command that does not read, or a long line, blocks no other message.
package lines

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"sync/atomic"
)

var (
	// ErrBacklog means that the queue is full.
	ErrBacklog = errors.New("the command does not read its input")
	// ErrEnded means that the command has ended.
	ErrEnded = errors.New("the command has ended")

	errTooLong = errors.New("the line is too long")
)

// CodeTooLarge is the code of the JSON-RPC error that replaces a message that is too long.
const CodeTooLarge = -31999

// Queue queues messages to a command, because the library's writes block all calls if the command does not read its input.
type Queue struct {
	file     io.WriteCloser
	limit    int64
	size     atomic.Int64 // bytes queued
	messages chan []byte
	ctx      context.Context
	cancel   context.CancelFunc
}

// maxQueued limits the number of queued messages, regardless of their size.
const maxQueued = 10_000

// NewQueue returns a queue that holds at most limit bytes, or one longer message.
func NewQueue(file io.WriteCloser, limit int) *Queue {
	q := &Queue{file: file, limit: int64(limit), messages: make(chan []byte, maxQueued)}
	q.ctx, q.cancel = context.WithCancel(context.Background())
	go q.pump()
	return q
}

// Write queues a message. It fails with [ErrEnded] after Close, and with [ErrBacklog] if the queue is full.
func (q *Queue) Write(p []byte) (int, error) {
	if q.ctx.Err() != nil {
		return 0, ErrEnded
	}
	n := int64(len(p))
	if size := q.size.Add(n); size == n || size <= q.limit {
		select {
		case q.messages <- bytes.Clone(p):
			return len(p), nil
		default:
		}
	}
	q.size.Add(-n)
	return 0, ErrBacklog
}

// Close closes the command's input and discards the queued messages.
func (q *Queue) Close() error {
	q.cancel()
	_ = q.file.Close() // it may be closed already
	return nil
}

func (q *Queue) pump() {
	for {
		select {
		case <-q.ctx.Done():
			return
		case message := <-q.messages:
			_, _ = q.file.Write(message) // fails if the command has ended, which the reader detects
			q.size.Add(-int64(len(message)))
		}
	}
}

// Reader reads a command's messages, one per line. It replaces a message that is too long by an error response to the same request.
type Reader struct {
	r       *bufio.Reader
	limit   int
	unread  []byte      // of the line that is being handed out
	Finish  func()      // ends the session and closes the file
	TooLong atomic.Bool // the session ended because of a message that was too long
}

// NewReader returns a reader of lines of at most limit bytes. It calls lost once, when the session ends.
func NewReader(file *os.File, limit int, lost func()) *Reader {
	finish := sync.OnceFunc(func() {
		lost()
		file.Close()
	})
	return &Reader{r: bufio.NewReaderSize(file, 64<<10), limit: limit, Finish: finish}
}

// Read returns only complete lines. It returns io.EOF instead of other errors, which the library would log.
func (l *Reader) Read(p []byte) (int, error) {
	if len(l.unread) == 0 {
		line, err := l.line()
		if err != nil {
			l.Finish()
			return 0, io.EOF
		}
		l.unread = line
	}
	n := copy(p, l.unread)
	l.unread = l.unread[n:]
	return n, nil
}

// line returns the next line, or its replacement if it is too long.
func (l *Reader) line() ([]byte, error) {
	var line []byte
	tooLong := false
	for {
		part, err := l.r.ReadSlice('\n')
		tooLong = tooLong || len(line)+len(part) > l.limit
		line = append(line, part[:min(len(part), l.limit-len(line))]...)
		switch {
		case errors.Is(err, bufio.ErrBufferFull):
		case err != nil && (tooLong || len(line) == 0):
			l.TooLong.Store(tooLong)
			return nil, err
		case tooLong:
			return l.errorLine(line)
		default:
			return line, nil
		}
	}
}

// errorLine returns the error that replaces a message that is too long. If head does not include the message's id, it ends
// the session, so that no call waits for the message.
func (l *Reader) errorLine(head []byte) ([]byte, error) {
	id := requestID(head)
	if id == nil {
		l.TooLong.Store(true)
		return nil, errTooLong
	}
	return fmt.Appendf(nil, `{"jsonrpc":"2.0","id":%s,"error":{"code":%d,"message":"too large"}}`+"\n", id, CodeTooLarge), nil
}

// requestID returns the id at the beginning of a response, or nil if there is none or the message is not a response.
func requestID(head []byte) json.RawMessage {
	d := json.NewDecoder(bytes.NewReader(head))
	if t, err := d.Token(); err != nil || t != json.Delim('{') {
		return nil
	}
	for d.More() {
		name, err := d.Token()
		if err != nil {
			return nil
		}
		var value json.RawMessage
		if err := d.Decode(&value); err != nil || name == "method" {
			return nil
		}
		if name == "id" {
			return value
		}
	}
	return nil
}
