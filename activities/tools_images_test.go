package activities

import (
	"strings"
	"testing"

	"weft/activities/contract"
)

// TestImagesThatDoNotFitAreLeftOut checks that images that do not fit are dropped from the end, with a note
// to the model, and that text that does not fit is an error.
func TestImagesThatDoNotFitAreLeftOut(t *testing.T) {
	image := func(kib int) contract.Media {
		return contract.Media{MediaType: "image/png", Data: strings.Repeat("A", kib<<10)}
	}
	tests := map[string]struct {
		payload int
		images  []contract.Media
		shown   int
		note    string
	}{
		"all fit":             {images: []contract.Media{image(600), image(600)}, shown: 2},
		"the last does not":   {images: []contract.Media{image(600), image(600), image(1200)}, shown: 2, note: "(the last 1 files were dropped: "},
		"none does":           {images: []contract.Media{image(2400), image(600)}, shown: 0, note: "(the last 2 files were dropped: "},
		"the store takes all": {payload: 8 << 20, images: []contract.Media{image(2400), image(600)}, shown: 2},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			a := New(Deps{MaxPayload: tc.payload})
			out, err := a.toolResult(&contract.Message{Role: contract.RoleTool, Name: "look", Text: "here", Media: tc.images}, false, 0)
			if err != nil {
				t.Fatal(err)
			}
			m, err := contract.DecodeMessage(out.Message)
			if err != nil {
				t.Fatal(err)
			}
			if len(m.Media) != tc.shown || !strings.HasPrefix(m.Text, "here") || !strings.Contains(m.Text, tc.note) || tc.note == "" && m.Text != "here" {
				t.Errorf("%d images, text %q", len(m.Media), m.Text)
			}
		})
	}
	_, err := New(Deps{}).toolResult(&contract.Message{Text: strings.Repeat("x", 3<<20), Media: []contract.Media{image(1)}}, false, 0)
	if err == nil || contract.FailureOf(err).Class != contract.ClassTooLarge {
		t.Errorf("a huge text gives %v", err)
	}
}
