package plan

import (
	"encoding/json"
	"testing"
)

func TestSeconds(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]Seconds{`"30s"`: 30, `"2m"`: 120, `"1h0m1s"`: 3601, `"1099511627776s"`: 1 << 40, `"0s"`: 0, `"-5s"`: -5} {
		var got Seconds
		if err := json.Unmarshal([]byte(text), &got); err != nil || got != want {
			t.Errorf("%s decoded as %d, %v; want %d", text, got, err, want)
		}
		var decoded Seconds
		if raw, err := json.Marshal(want); err != nil || json.Unmarshal(raw, &decoded) != nil || decoded != want {
			t.Errorf("%d encoded as %s, %v", want, raw, err)
		}
	}
	for _, text := range []string{`30`, `"30"`, `"1.5s"`, `"10ms"`, `"soon"`, `""`} {
		var got Seconds
		if json.Unmarshal([]byte(text), &got) == nil {
			t.Errorf("%s decoded as %d, want an error", text, got)
		}
	}
}
