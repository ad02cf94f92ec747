package observe

import (
	"bytes"
	"encoding/json"
	"log/slog"
	"strings"
	"testing"

	"go.temporal.io/sdk/log"
)

func TestLogLinesNameTheNode(t *testing.T) {
	tests := map[string]struct {
		log  func(l log.Logger)
		node any
	}{
		"logger of an activity":   {func(l log.Logger) { log.With(l, "RunID", "r", "ActivityID", "desk#2/model/1", "Attempt", 3).Warn("x") }, "desk"},
		"line with an activity":   {func(l log.Logger) { l.Warn("x", "RunID", "r", "ActivityID", "desk#2/model/1", "Attempt", 3) }, "desk"},
		"activity without a node": {func(l log.Logger) { l.Warn("x", "RunID", "r", "ActivityID", "prepare", "Attempt", 3) }, nil},
		"no activity":             {func(l log.Logger) { l.Warn("x", "RunID", "r", "Attempt", 3) }, nil},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			var out bytes.Buffer
			tc.log(log.NewStructuredLogger(Logger(&out, true, slog.LevelWarn)))
			var line map[string]any
			if err := json.Unmarshal(out.Bytes(), &line); err != nil {
				t.Fatalf("%v in %q", err, out.String())
			}
			if line["Node"] != tc.node || line["RunID"] != "r" || line["Attempt"] != 3.0 || line["msg"] != "x" || line["level"] != "WARN" {
				t.Errorf("line = %v, want node %v", line, tc.node)
			}
		})
	}
}

func TestLevelAndFormat(t *testing.T) {
	var out bytes.Buffer
	l := Logger(&out, false, slog.LevelInfo)
	l.Debug("not this")
	l.Error("Activity error.", "Error", "not this")
	l.WithGroup("g").Info("this", "ActivityID", "a#1/tool/x")
	if got := out.String(); strings.Contains(got, "not this") || !strings.Contains(got, "level=INFO msg=this g.ActivityID=a#1/tool/x g.Node=a\n") {
		t.Errorf("log = %q", got)
	}
}
