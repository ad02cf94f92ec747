package workflows

import (
	"encoding/json"
	"strings"
	"testing"

	"weft/activities/contract"
	"weft/workflows/runtime"
)

func TestDetailsShowSwitchesOfModels(t *testing.T) {
	f := &flowRun{run: (&runtime.Run{}).link()}
	f.run.Budget.Usage.Switch("b/y", []contract.Switch{{Model: "a|x\n", Class: contract.ClassRateLimited}})
	f.run.Budget.Usage.Switch("b/y", []contract.Switch{{Model: "a|x\n", Class: contract.ClassRateLimited}})
	var b strings.Builder
	f.switches(&b)
	if want := "\n| switched from | to | why | times |\n|---|---|---|---|\n| a\\|x  | b/y | rate\\_limited | 2 |\n"; b.String() != want {
		t.Errorf("got %q\nwant %q", b.String(), want)
	}
	b.Reset()
	(&flowRun{run: (&runtime.Run{}).link()}).switches(&b)
	if b.Len() > 0 {
		t.Errorf("without any: %q", b.String())
	}
}

// What authors and models wrote is shown as they wrote it, and ends no cell. That the Web UI makes that
// of it is seen in tests/browser.
func TestDetailsEscape(t *testing.T) {
	tests := map[string]struct{ cell, code string }{
		"Refund Desk":           {"Refund Desk", "`Refund Desk`"},
		"":                      {"", ""},
		"a|b\r\nc\nd\re":        {`a\|b c d e`, `a\|b c d e`},
		"<!-- pay --> <b>&amp;": {`\<!\-\- pay \-\-> \<b>\&amp;`, "`<!-- pay --> <b>&amp;`"},
		"*a* _b_ ~~c~~ $d$":     {`\*a\* \_b\_ \~\~c\~\~ \$d\$`, "`*a* _b_ ~~c~~ $d$`"},
		"![x](https://y)":       {`!\[x\](https\://y)`, "`![x](https://y)`"},
		`a\|b\`:                 {`a\\\|b\\`, `a\\\|b\\`},
		"`x`":                   {"\\`x\\`", "\\`x\\`"},
	}
	for text, want := range tests {
		if got := cell(text); got != want.cell {
			t.Errorf("cell %q is %q, want %q", text, got, want.cell)
		}
		if got := code(text); got != want.code {
			t.Errorf("code %q is %q, want %q", text, got, want.code)
		}
	}
}

// TestPasteIsAnAnswer takes what the Web UI shows for each kind as it stands.
func TestPasteIsAnAnswer(t *testing.T) {
	for _, kind := range contract.Requests {
		q := &contract.Request{ID: "a|`b\"\x01<é>\\#1", Kind: kind}
		a, err := inbox.readAnswer(kind, json.RawMessage(paste(q)))
		if err != nil || a.id != q.ID {
			t.Errorf("%s: %s gives %+v, %v", kind, paste(q), a, err)
		}
	}
}

func TestPasteStaysInItsCell(t *testing.T) {
	q := &contract.Request{ID: "a|`b\"\x01#1", Kind: contract.RequestConfirm}
	text := paste(q)
	var back struct {
		ID      string `json:"id"`
		Approve bool   `json:"approve"`
	}
	if err := json.Unmarshal([]byte(text), &back); err != nil || back.ID != q.ID || !back.Approve || strings.ContainsAny(text, "|`") {
		t.Errorf("%s: %+v, %v", text, back, err)
	}
}
