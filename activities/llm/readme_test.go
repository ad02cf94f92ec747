package llm

import (
	"os"
	"slices"
	"strings"
	"testing"
	"weft/activities/llm/wire"
)

// checkReadme checks a generated section of README.md, between its markers. UPDATE=1 rewrites it.
func checkReadme(t *testing.T, name, want string) {
	t.Helper()
	raw, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	open, end := "<!-- "+name+" -->\n", "<!-- /"+name+" -->"
	before, rest, found := strings.Cut(string(raw), open)
	have, after, closed := strings.Cut(rest, end)
	if !found || !closed {
		t.Fatalf("README.md has no section %q", name)
	}
	switch {
	case have == want:
	case os.Getenv("UPDATE") != "":
		if err := os.WriteFile("README.md", []byte(before+open+want+end+after), 0o644); err != nil {
			t.Fatal(err)
		}
	default:
		t.Errorf("section %q of README.md is outdated; UPDATE=1 rewrites it:\n%s", name, want)
	}
}

func TestGoldenProviders(t *testing.T) {
	tick := func(b bool) string { return map[bool]string{true: "yes", false: "-"}[b] }
	code := func(s string) string {
		if s == "" {
			return "-"
		}
		return "`" + s + "`"
	}
	var b strings.Builder
	b.WriteString("| kind | address | key | json_schema | json_object | ... with tools | `tool_choice: none` | calls with tools | reasoning is sent back as | images in tool results are sent | invalid JSON arguments are sent | further parameters |\n")
	b.WriteString(strings.Repeat("| --- ", 12) + "|\n")
	for _, p := range Providers {
		if p.Script {
			continue
		}
		key := code(p.KeyName)
		if p.OtherKeyName != "" {
			key += " or " + code(p.OtherKeyName)
		}
		if !p.NeedsKey && p.KeyName != "" {
			key += " (optional)"
		}
		address := code(p.BaseURL)
		if p.BaseURL == "" {
			address = "like " + code(p.Example)
		}
		reasoning := code(p.Reasoning)
		if slices.Contains([]string{wire.Claude, wire.Gemini, wire.Converse}, p.Protocol) {
			reasoning = "signed blocks"
		}
		params := strings.Join(p.Params, ", ")
		b.WriteString("| " + strings.Join([]string{
			code(p.Name), address, key, tick(p.Schema), tick(p.JSON), tick(p.FormatWithTools),
			map[bool]string{true: "sent", false: "no tools sent"}[p.ToolChoice], map[bool]string{true: "unary", false: "streamed"}[p.UnaryTools],
			reasoning, map[bool]string{true: "in results", false: "in a message after them"}[p.ResultImages], map[bool]string{true: "as written", false: "wrapped"}[p.RawArguments], params,
		}, " | ") + " |\n")
	}
	checkReadme(t, "providers", b.String())
	raw, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	_, quirks, _ := strings.Cut(string(raw), "| kind | specific settings")
	quirks, _, _ = strings.Cut(quirks, "\n\n")
	for _, p := range Providers {
		if !p.Script && !strings.Contains(quirks, "\n| `"+p.Name+"` |") {
			t.Errorf("README.md has no notes on %s", p.Name)
		}
	}
}
