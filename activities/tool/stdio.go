package tool

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"sync/atomic"
)

var (
	errBacklog = errors.New("the command does not read its input")
	errEnded   = errors.New("the command has ended")
)

// writeQueue queues messages to a command, because the library writes under a lock without a context: a command
// that does not read would block every call.
type writeQueue struct {
	file  *os.File
	limit int
	done  chan struct{}

	mu     sync.Mutex
	wake   *sync.Cond
	queue  [][]byte
	size   int
	closed bool
}

func newWriteQueue(file *os.File, limit int) *writeQueue {
	o := &writeQueue{file: file, limit: limit, done: make(chan struct{})}
	o.wake = sync.NewCond(&o.mu)
	go o.pump()
	return o
}

// Write queues a message. It fails when the command is gone, or lets too much wait.
func (o *writeQueue) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.closed {
		return 0, errEnded
	}
	if o.size > 0 && o.size+len(p) > o.limit {
		return 0, errBacklog
	}
	o.queue = append(o.queue, bytes.Clone(p))
	o.size += len(p)
	o.wake.Signal()
	return len(p), nil
}

// Close closes the command's input. What still waits is lost.
func (o *writeQueue) Close() error {
	o.mu.Lock()
	if o.closed {
		o.mu.Unlock()
		return nil
	}
	o.closed = true
	o.wake.Signal()
	o.mu.Unlock()
	err := o.file.Close()
	<-o.done
	return err
}

func (o *writeQueue) pump() {
	defer close(o.done)
	for {
		o.mu.Lock()
		for len(o.queue) == 0 && !o.closed {
			o.wake.Wait()
		}
		if o.closed {
			o.mu.Unlock()
			return
		}
		message := o.queue[0]
		o.queue = o.queue[1:]
		o.mu.Unlock()
		_, err := o.file.Write(message)
		o.mu.Lock()
		o.size -= len(message)
		if err != nil {
			o.queue, o.size = nil, 0
		}
		o.mu.Unlock()
	}
}

// lineReader reads a command's messages, one per line. A message that is too long is replaced by an error for its
// call.
type lineReader struct {
	file  *os.File
	r     *bufio.Reader
	limit int
	rest  []byte // of the line that is being handed out
	lost  func()
	once  sync.Once
	over  atomic.Bool
}

func newLineReader(file *os.File, limit int, lost func()) *lineReader {
	return &lineReader{file: file, r: bufio.NewReaderSize(file, 64<<10), limit: limit, lost: lost}
}

// tooLong reports whether the session ended because of a message that was too long.
func (l *lineReader) tooLong() bool { return l.over.Load() }

// Read hands out whole lines. Every end is io.EOF: the library logs others.
func (l *lineReader) Read(p []byte) (int, error) {
	if len(l.rest) == 0 {
		line, err := l.line()
		if err != nil {
			l.finish()
			return 0, io.EOF
		}
		l.rest = line
	}
	n := copy(p, l.rest)
	l.rest = l.rest[n:]
	return n, nil
}

// finish ends the session and closes the file.
func (l *lineReader) finish() {
	l.once.Do(func() {
		l.lost()
		l.file.Close()
	})
}

// line reads the next line, or what stands for it.
func (l *lineReader) line() ([]byte, error) {
	var line []byte
	for {
		part, err := l.r.ReadSlice('\n')
		switch {
		case len(line)+len(part) <= l.limit:
			line = append(line, part...)
		default:
			head := append(line, part[:max(l.limit-len(line), 0)]...)
			if errors.Is(err, bufio.ErrBufferFull) {
				return l.skip(head)
			}
			if err == nil {
				return l.errorLine(head)
			}
		}
		if err == nil || !errors.Is(err, bufio.ErrBufferFull) && len(line) > 0 {
			return line, nil
		}
		if !errors.Is(err, bufio.ErrBufferFull) {
			return nil, err
		}
	}
}

// skip reads to the end of a line that is too long.
func (l *lineReader) skip(head []byte) ([]byte, error) {
	for {
		switch _, err := l.r.ReadSlice('\n'); {
		case err == nil:
			return l.errorLine(head)
		case !errors.Is(err, bufio.ErrBufferFull):
			l.over.Store(true)
			return nil, err
		}
	}
}

// errorLine makes the error that replaces a message that is too long. Without an early id it ends the session,
// so that no call waits.
func (l *lineReader) errorLine(head []byte) ([]byte, error) {
	id := requestID(head)
	if id == nil {
		l.over.Store(true)
		return nil, errTooLarge
	}
	return fmt.Appendf(nil, `{"jsonrpc":"2.0","id":%s,"error":{"code":%d,"message":"too large"}}`+"\n", id, codeTooLarge), nil
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
