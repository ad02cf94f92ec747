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

// TestCorpusPlans checks that every valid document of the corpus either compiles to a valid plan or
// is rejected only for components that cannot be run yet.
func TestCorpusPlans(t *testing.T) {
	dir, rows := corpus(t, "agentspec")
	plans, rejected := 0, 0
	for _, row := range rows {
		path := filepath.Join(dir, row[0])
		text := readCorpus(t, path)
		if doc, _ := model.Load(filepath.Base(path), text, model.Options{}); doc == nil {
			continue
		}
		res, diags := specadapter.Load(filepath.Base(path), text, specadapter.Options{Dialect: agentspec.Name})
		if res == nil {
			rejected++
			for _, d := range diags {
				if d.Severity == 0 && d.Code != agentspec.CodeNotYet {
					t.Errorf("%s: %s", row[0], d)
				}
			}
			continue
		}
		plans++
		decoded, err := plan.Decode(mustMarshal(t, res.Flow))
		if err != nil || len(decoded.Nodes) != len(res.Flow.Nodes) || strings.TrimSpace(res.Flow.Name) == "" {
			t.Errorf("%s: %v", row[0], err)
		}
	}
	t.Logf("%d plans, %d rejected", plans, rejected)
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
