package llm

import (
	"encoding/json"
	"net/http"
)

// compatible is OpenAI's chat completions protocol, with the differences of its provider's row.
type compatible struct{ *remote }

func (c compatible) authorize(req *http.Request, _ []byte) error {
	if c.key != "" {
		req.Header.Set("Authorization", "Bearer "+c.key)
	}
	return nil
}

func (c compatible) reader(x *exchange) reader {
	return &chatReader{chatDraft{draft: draft{x: x}}}
}

// chatReader reads an answer of chat completions.
type chatReader struct{ chatDraft }

func (r *chatReader) read(raw []byte, streamed bool) (string, bool, error) {
	var ch chunk
	if err := json.Unmarshal(raw, &ch); err != nil {
		if streamed {
			return "", false, invalidf("an event of the stream is no JSON (%v): %s", err, excerpt(raw))
		}
		return "", false, r.x.providerError(raw)
	}
	if found := problemIn(&ch, raw); found != nil {
		return "", false, r.x.providerError(found)
	}
	if !streamed && len(ch.Choices) == 0 {
		return "", false, invalidf("the answer has no choices: %s", excerpt(raw))
	}
	text, err := r.add(&ch, streamed)
	return text, false, err
}

// problemIn finds an error object in an answer that has status 200, or in an event of it.
func problemIn(ch *chunk, raw []byte) json.RawMessage {
	if isSet(ch.Error) {
		return ch.Error
	}
	if ch.Object == "error" {
		return raw
	}
	var found json.RawMessage
	for i := range ch.Choices {
		if isSet(ch.Choices[i].Error) {
			found = ch.Choices[i].Error
		}
	}
	return found
}
