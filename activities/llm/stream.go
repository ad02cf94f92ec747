package llm

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"time"
)

// afterFinish is how long a stream is read on for its usage once the answer is whole.
const afterFinish = 3 * time.Second

// readEvents calls each with the data of every server-sent event until it is done or fails, or the stream
// ends. It accepts LF and CRLF, comments, events without a blank line between them, and JSON lines without a
// field name.
func readEvents(r *bufio.Reader, each func(data []byte) (done bool, err error)) error {
	if mark, _ := r.Peek(len(byteOrderMark)); string(mark) == byteOrderMark {
		_, _ = r.Discard(len(byteOrderMark))
	}
	var event []byte
	flush := func() (bool, error) {
		whole := event
		event = nil
		if len(whole) == 0 {
			return false, nil
		}
		return each(whole)
	}
	for {
		line, readErr := r.ReadBytes('\n')
		if readErr != nil && !errors.Is(readErr, io.EOF) {
			// What came before a broken connection is no event, whole or not.
			return readErr
		}
		line = bytes.TrimRight(line, "\r\n")
		data, isData := dataOf(line)
		// Two data lines are two events where the first is complete by itself.
		if len(line) == 0 || isData && (isDone(event) || json.Valid(event)) {
			if done, err := flush(); done || err != nil {
				return err
			}
		}
		if isData {
			if len(event) > 0 {
				event = append(event, '\n')
			}
			event = append(event, data...)
		}
		if readErr != nil {
			_, err := flush()
			return err
		}
	}
}

// byteOrderMark may stand before a stream.
const byteOrderMark = "\xef\xbb\xbf"

// dataOf is the data in a line of an event stream.
func dataOf(line []byte) ([]byte, bool) {
	if rest, ok := bytes.CutPrefix(line, []byte("data:")); ok {
		return bytes.TrimPrefix(rest, []byte(" ")), true
	}
	if len(line) > 0 && line[0] == '{' {
		return line, true
	}
	return nil, false
}

func isDone(data []byte) bool {
	return string(bytes.TrimSpace(data)) == "[DONE]"
}

// readStream reads a streamed answer. Once it is complete, errors of the rest of the stream are ignored.
func (x *exchange) readStream(to reader, r *bufio.Reader) error {
	err := readEvents(r, func(data []byte) (bool, error) {
		if isDone(data) {
			return true, nil
		}
		if len(bytes.TrimSpace(data)) == 0 {
			return false, nil
		}
		text, done, err := to.read(data, true)
		if err != nil {
			return false, err
		}
		if to.complete() {
			x.watch.shorten(afterFinish)
		}
		return done, x.emit(to, text)
	})
	if err != nil && (!to.complete() || x.stopped || x.ctx.Err() != nil) {
		return x.watch.cause(err)
	}
	return nil
}
