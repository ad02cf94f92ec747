// Package lines exchanges messages with a command, one per line. Neither a command that does not read nor a line that is too
// long blocks other messages.
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
	// ErrBacklog means that too much waits for the command.
	ErrBacklog = errors.New("the command does not read its input")
	// ErrEnded means that the command is gone.
	ErrEnded = errors.New("the command has ended")

	errTooLong = errors.New("the line is too long")
)

// CodeTooLarge is the JSON-RPC error that stands for a message that was too long to read.
const CodeTooLarge = -31999

// Queue queues messages to a command, because the library writes under a lock without a context: a command
// that does not read would block every call.
type Queue struct {
	file     io.WriteCloser
	limit    int64
	size     atomic.Int64 // of what waits
	messages chan []byte
	life     context.Context
	end      context.CancelFunc
}

// maxQueued bounds how many messages wait, however short.
const maxQueued = 10_000

// NewQueue returns a queue to a command whose messages together have at most limit bytes.
func NewQueue(file io.WriteCloser, limit int) *Queue {
	q := &Queue{file: file, limit: int64(limit), messages: make(chan []byte, maxQueued)}
	q.life, q.end = context.WithCancel(context.Background())
	go q.pump()
	return q
}

// Write queues a message. It fails when the command is gone, or lets too much wait.
func (q *Queue) Write(p []byte) (int, error) {
	if q.life.Err() != nil {
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

// Close closes the command's input. What still waits is lost.
func (q *Queue) Close() error {
	q.end()
	_ = q.file.Close() // it may be closed already
	return nil
}

func (q *Queue) pump() {
	for {
		select {
		case <-q.life.Done():
			return
		case message := <-q.messages:
			_, _ = q.file.Write(message) // it fails when the command is gone, which others notice
			q.size.Add(-int64(len(message)))
		}
	}
}

// Reader reads a command's messages, one per line. A message that is too long is replaced by an error for its
// call.
type Reader struct {
	r      *bufio.Reader
	limit  int
	rest   []byte      // of the line that is being handed out
	Finish func()      // ends the session and closes the file
	Over   atomic.Bool // the session ended because of a message that was too long
}

// NewReader returns a reader of lines of at most limit bytes. Lost is called once, at their end.
func NewReader(file *os.File, limit int, lost func()) *Reader {
	finish := sync.OnceFunc(func() {
		lost()
		file.Close()
	})
	return &Reader{r: bufio.NewReaderSize(file, 64<<10), limit: limit, Finish: finish}
}

// Read hands out whole lines. Every end is io.EOF: the library logs others.
func (l *Reader) Read(p []byte) (int, error) {
	if len(l.rest) == 0 {
		line, err := l.line()
		if err != nil {
			l.Finish()
			return 0, io.EOF
		}
		l.rest = line
	}
	n := copy(p, l.rest)
	l.rest = l.rest[n:]
	return n, nil
}

// line reads the next line, or what stands for it.
func (l *Reader) line() ([]byte, error) {
	var line []byte
	long := false
	for {
		part, err := l.r.ReadSlice('\n')
		long = long || len(line)+len(part) > l.limit
		line = append(line, part[:min(len(part), l.limit-len(line))]...)
		switch {
		case errors.Is(err, bufio.ErrBufferFull):
		case err != nil && (long || len(line) == 0):
			l.Over.Store(long)
			return nil, err
		case long:
			return l.errorLine(line)
		default:
			return line, nil
		}
	}
}

// errorLine makes the error that replaces a message that is too long. Without an early id it ends the session,
// so that no call waits.
func (l *Reader) errorLine(head []byte) ([]byte, error) {
	id := requestID(head)
	if id == nil {
		l.Over.Store(true)
		return nil, errTooLong
	}
	return fmt.Appendf(nil, `{"jsonrpc":"2.0","id":%s,"error":{"code":%d,"message":"too large"}}`+"\n", id, CodeTooLarge), nil
}

// requestID finds the id at the beginning of a response; nil for others.
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
