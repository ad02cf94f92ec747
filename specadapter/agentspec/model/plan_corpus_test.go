package model_test

import (
	"encoding/json"
	"path/filepath"
	"strings"
	"testing"

	"weft/specadapter"
	"weft/specadapter/agentspec"
	"weft/specadapter/agentspec/model"
	"weft/workflows/plan"
)

// Every document of the corpus that loads either makes a plan that the interpreter takes, or is
// refused for components that do not run yet, and for nothing else.
func TestPlansOfTheCorpus(t *testing.T) {
	dir, rows := corpus(t, "agentspec")
	plans, refused := 0, 0
	for _, row := range rows {
		path := filepath.Join(dir, row[0])
		text := readCorpus(t, path)
		if doc, _ := model.Load(filepath.Base(path), text, model.Options{}); doc == nil {
			continue
		}
		res, diags := specadapter.Load(filepath.Base(path), text, specadapter.Options{Dialect: agentspec.Name})
		if res == nil {
			refused++
			for _, d := range diags {
				if d.Severity == 0 && d.Code != agentspec.CodeNotYet {
					t.Errorf("%s: %s", row[0], d)
				}
			}
			continue
		}
		plans++
		again, err := plan.Decode(mustMarshal(t, res.Flow))
		if err != nil || len(again.Nodes) != len(res.Flow.Nodes) || strings.TrimSpace(res.Flow.Name) == "" {
			t.Errorf("%s: %v", row[0], err)
		}
	}
	t.Logf("%d plans, %d refused", plans, refused)
	if plans < 100 {
		t.Errorf("%d plans", plans)
	}
}

func mustMarshal(t *testing.T, v any) []byte {
	t.Helper()
	raw, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return raw
}
