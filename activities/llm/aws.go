package llm

import (
	"bufio"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"iter"
	"net/http"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/aws/protocol/eventstream"
	"github.com/aws/aws-sdk-go-v2/aws/protocol/eventstream/eventstreamapi"
	v4 "github.com/aws/aws-sdk-go-v2/aws/signer/v4"

	"weft/activities/llm/wire"
)

// AWSKeys are AWS access keys for signing requests to Bedrock. Token is the session token; it may be empty.
type AWSKeys struct{ ID, Secret, Token string }

func (p *provider) signsAWS() bool {
	return p.Protocol == wire.Converse && p.key == "" && p.aws.ID != "" && p.aws.Secret != ""
}

func (p *provider) signAWS(req *http.Request, body []byte) error {
	sum := sha256.Sum256(body)
	keys := aws.Credentials{AccessKeyID: p.aws.ID, SecretAccessKey: p.aws.Secret, SessionToken: p.aws.Token}
	return v4.NewSigner().SignHTTP(req.Context(), keys, req, hex.EncodeToString(sum[:]), "bedrock", p.region, time.Now())
}

// awsEvents returns the events of AWS's binary stream, each as an object that maps the event's type to its payload. A
// stream that ends within a frame just ends.
func awsEvents(r *bufio.Reader) iter.Seq2[[]byte, error] {
	return func(yield func([]byte, error) bool) {
		decoder := eventstream.NewDecoder()
		for {
			_, _ = r.Peek(1) // waits for a frame
			start, _ := r.Peek(min(r.Buffered(), 100))
			prefix := string(start)
			m, err := decoder.Decode(r, nil)
			switch {
			case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
				return
			case errors.As(err, new(eventstream.ChecksumError)), errors.As(err, new(eventstream.LengthError)):
				err = wire.Invalidf("invalid frame in the stream (%v): %s", err, prefix)
			}
			var data []byte
			if err == nil {
				data, err = json.Marshal(eventOf(&m))
			}
			if !yield(data, err) || err != nil {
				return
			}
		}
	}
}

// eventOf returns a frame's event. Errors that the service reports are under "exception", with their type.
func eventOf(m *eventstream.Message) map[string]any {
	header := func(name string) string {
		if v := m.Headers.Get(name); v != nil {
			return v.String()
		}
		return ""
	}
	switch header(eventstreamapi.MessageTypeHeader) {
	case eventstreamapi.ExceptionMessageType:
		report := map[string]any{}
		if json.Unmarshal(m.Payload, &report) != nil {
			report["message"] = string(m.Payload)
		}
		report["type"] = header(eventstreamapi.ExceptionTypeHeader)
		return map[string]any{"exception": report}
	case eventstreamapi.ErrorMessageType:
		return map[string]any{"exception": map[string]any{"type": header(eventstreamapi.ErrorCodeHeader), "message": header(eventstreamapi.ErrorMessageHeader)}}
	}
	return map[string]any{header(eventstreamapi.EventTypeHeader): json.RawMessage(m.Payload)}
}
