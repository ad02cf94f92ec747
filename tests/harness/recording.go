package harness

import (
	"testing"

	"weft/starter/history"
	"weft/starter/recording"
	"weft/worker/rehearse"
)

// PlayRecording records a closed run and plays the recording, which must be the same run.
func (h *Worker) PlayRecording(t *testing.T, id, run string) *rehearse.Recording {
	t.Helper()
	raw, _, err := recording.Record(t.Context(), history.From(h.Client), id, run, nil)
	if err != nil {
		t.Fatal(err)
	}
	rec, err := rehearse.Read("run.yaml", raw)
	if err != nil {
		t.Fatal(err)
	}
	rep, err := rehearse.Play(rec)
	if err != nil {
		t.Fatal(err)
	}
	if !rep.OK {
		t.Errorf("the recording does not play: %+v\n%s", rep.First, raw)
	}
	return rec
}
