package serve

import (
	"bytes"
	"net/http"
	"slices"

	"weft/activities/mask"
)

// masker keeps the secrets of the settings out of what clients are sent.
type masker struct {
	http.ResponseWriter
	mask *mask.Mask
}

// Unwrap is for [http.ResponseController].
func (v *masker) Unwrap() http.ResponseWriter { return v.ResponseWriter }

// dataOfEvent is what stands before the JSON of a server-sent event, endOfEvent what stands behind it.
var dataOfEvent, endOfEvent = []byte("\ndata: "), []byte("\n\n")

// Write writes a whole body, or a whole event, of which the id stays as it is: clients come back with it.
func (v *masker) Write(p []byte) (int, error) {
	out := p
	if v.Header().Get("Content-Type") != eventStream {
		out = v.answer(p, []byte("\n"))
	} else if head, data, ok := bytes.Cut(p, dataOfEvent); ok {
		out = slices.Concat(head, dataOfEvent, v.answer(data, endOfEvent))
	}
	if _, err := v.ResponseWriter.Write(out); err != nil {
		return 0, err
	}
	return len(p), nil
}

// answer masks JSON, and leaves what ends it where it is.
func (v *masker) answer(p, end []byte) []byte {
	value, ok := bytes.CutSuffix(p, end)
	if !ok {
		return v.mask.Answer(p)
	}
	return slices.Concat(v.mask.Answer(value), end)
}

// unmasked is the server's own writer: it knows when a request is too large to go on with.
func unmasked(w http.ResponseWriter) http.ResponseWriter {
	if v, ok := w.(*masker); ok {
		return v.ResponseWriter
	}
	return w
}
