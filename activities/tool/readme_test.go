package tool

import (
	"maps"
	"os"
	"slices"
	"strings"
	"testing"
)

// TestReadmeTables compares the tables of README.md with those of the code.
func TestReadmeTables(t *testing.T) {
	raw, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	section := func(title string) string {
		_, rest, ok := strings.Cut(string(raw), "\n## "+title+"\n")
		if !ok {
			t.Fatalf("README.md has no section %q", title)
		}
		text, _, _ := strings.Cut(rest, "\n## ")
		return text
	}
	var listed []string
	for _, line := range strings.Split(section("Kinds"), "\n") {
		if name, _, ok := strings.Cut(strings.TrimPrefix(line, "| `"), "` |"); ok && strings.HasPrefix(line, "| `") {
			listed = append(listed, name)
		}
	}
	if want := slices.Sorted(maps.Keys(kinds)); !slices.Equal(slices.Sorted(slices.Values(listed)), want) {
		t.Errorf("README.md lists the kinds %q, want %q", listed, want)
	}
	_, head, _ := strings.Cut(section("Transports"), "| |")
	head, _, _ = strings.Cut(head, "\n")
	var columns []string
	for _, c := range strings.Split(strings.Trim(head, " |"), "|") {
		columns = append(columns, strings.Fields(c)[0])
	}
	if slices.Sort(columns); !slices.Equal(columns, slices.Sorted(maps.Keys(transports))) {
		t.Errorf("README.md lists the transports %q, want %q", columns, slices.Sorted(maps.Keys(transports)))
	}
	for _, setting := range []string{SettingConnections, SettingTools, SettingActivities, SettingAllowPrivate, SettingAllowLoopback, SettingAllowHosts, SettingAllowCommand, SettingSecrets} {
		if !strings.Contains(string(raw), "\n"+setting+":") {
			t.Errorf("README.md does not show the setting %q", setting)
		}
	}
}
