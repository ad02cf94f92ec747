package tool

import (
	"os"
	"slices"
	"strings"
	"testing"
)

// TestReadmeTablesAreTheTables compares the tables of README.md with those of the code.
func TestReadmeTablesAreTheTables(t *testing.T) {
	raw, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	part := func(title string) string {
		_, rest, ok := strings.Cut(string(raw), "\n## "+title+"\n")
		if !ok {
			t.Fatalf("README.md has no part %q", title)
		}
		text, _, _ := strings.Cut(rest, "\n## ")
		return text
	}
	var kinds []string
	for _, line := range strings.Split(part("Kinds"), "\n") {
		if name, _, ok := strings.Cut(strings.TrimPrefix(line, "| `"), "` |"); ok && strings.HasPrefix(line, "| `") {
			kinds = append(kinds, name)
		}
	}
	if slices.Sort(kinds); strings.Join(kinds, " or ") != kindNames() {
		t.Errorf("README.md has the kinds %q, the table %q", kinds, kindNames())
	}
	_, head, _ := strings.Cut(part("Transports"), "| |")
	head, _, _ = strings.Cut(head, "\n")
	var columns []string
	for _, c := range strings.Split(strings.Trim(head, " |"), "|") {
		columns = append(columns, strings.Fields(c)[0])
	}
	if slices.Sort(columns); !slices.Equal(columns, slices.Sorted(slices.Values(transportNames))) {
		t.Errorf("README.md has the transports %q, the table %q", columns, transportNames)
	}
	for _, setting := range []string{SettingConnections, SettingTools, SettingActivities, SettingAllowPrivate, SettingAllowLoopback, SettingAllowHosts, SettingAllowCommand, SettingSecrets} {
		if !strings.Contains(string(raw), "\n"+setting+":") {
			t.Errorf("README.md shows no setting %q", setting)
		}
	}
}
