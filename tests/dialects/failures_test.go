package dialects

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

var (
	proofs     = regexp.MustCompile("`([^`]+)`")
	oneOfProof = regexp.MustCompile(`^([a-z][a-z0-9/]*)\.(Test\w+)(?:/(.+))?$`)
)

// TestFailuresAreProved checks the tables of docker/FAILURES.md and docker/SECURITY.md: every line is complete and
// unique, and the tests that it names exist.
func TestFailuresAreProved(t *testing.T) {
	for _, doc := range []struct {
		file, header string
		atLeast      int
	}{
		{"../../docker/FAILURES.md", "| Part | Fault | What happens | Repeated | Lost | Reported to | Proof |\n", 80},
		{"../../docker/SECURITY.md", "| Attacker | Attack | What happens | Proof |\n", 40},
	} {
		raw, err := os.ReadFile(doc.file)
		if err != nil {
			t.Fatal(err)
		}
		_, table, _ := strings.Cut(string(raw), doc.header)
		lines := 0
		for _, p := range tableProblems(table, "../..", strings.Count(doc.header, "|")-1, &lines) {
			t.Errorf("%s: %s", doc.file, p)
		}
		if lines < doc.atLeast {
			t.Errorf("the table of %s has %d lines, want at least %d", doc.file, lines, doc.atLeast)
		}
	}
}

// tableProblems lists the problems of a table with this number of columns, the last of which names tests of the module
// at root. It adds the number of lines read to lines.
func tableProblems(text, root string, columns int, lines *int) (problems []string) {
	known, seen := map[string]map[string]testSource{}, map[string]bool{}
	for line := range strings.SplitSeq(text, "\n") {
		if !strings.HasPrefix(line, "|") || strings.HasPrefix(line, "| ---") {
			continue
		}
		*lines++
		add := func(format string, args ...any) {
			problems = append(problems, fmt.Sprintf("%.60s: ", line)+fmt.Sprintf(format, args...))
		}
		cells := strings.Split(strings.Trim(line, "|"), "|")
		for k := range cells {
			cells[k] = strings.TrimSpace(cells[k])
		}
		if len(cells) != columns || slices.Contains(cells, "") {
			add("%d cells, or an empty one; want %d", len(cells), columns)
			continue
		}
		if key := cells[0] + "/" + cells[1]; seen[key] {
			add("duplicate entry %s", key)
		} else {
			seen[key] = true
		}
		named := proofs.FindAllStringSubmatch(cells[columns-1], -1)
		if len(named) == 0 {
			add("names no test")
		}
		for _, n := range named {
			if err := proofExists(root, n[1], known); err != nil {
				add("%v", err)
			}
		}
	}
	return problems
}

// testSource holds the string literals of a test function's file, among which are the names of
// its subtests.
type testSource struct{ texts map[string]bool }

// proofExists returns an error unless the test package.Test, or package.Test/subtest, exists. A subtest's
// name is a string literal in the test's file, or the name of a script in the package's testdata.
func proofExists(root, name string, known map[string]map[string]testSource) error {
	m := oneOfProof.FindStringSubmatch(name)
	if m == nil {
		return fmt.Errorf("%q is not of the form package.Test or package.Test/subtest", name)
	}
	dir := filepath.Join(root, m[1])
	if known[dir] == nil {
		found, err := testsIn(dir)
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		known[dir] = found
	}
	src, ok := known[dir][m[2]]
	if !ok {
		return fmt.Errorf("%s has no test %s", m[1], m[2])
	}
	if m[3] == "" || src.texts[m[3]] {
		return nil
	}
	scripts, err := filepath.Glob(filepath.Join(dir, "testdata", "*", m[3]+".txtar"))
	if err != nil {
		return err
	}
	if len(scripts) == 0 {
		return fmt.Errorf("%s: the test has no subtest %q", name, m[3])
	}
	return nil
}

// testsIn returns the test functions of a folder by name.
func testsIn(dir string) (map[string]testSource, error) {
	files, err := fs.Glob(os.DirFS(dir), "*_test.go")
	if err != nil || len(files) == 0 {
		return nil, fmt.Errorf("%s has no tests: %v", dir, err)
	}
	out := map[string]testSource{}
	for _, f := range files {
		parsed, err := parser.ParseFile(token.NewFileSet(), filepath.Join(dir, f), nil, parser.SkipObjectResolution)
		if err != nil {
			return nil, err
		}
		texts := map[string]bool{}
		ast.Inspect(parsed, func(n ast.Node) bool {
			if lit, ok := n.(*ast.BasicLit); ok && lit.Kind == token.STRING {
				if s, err := strconv.Unquote(lit.Value); err == nil {
					texts[s] = true
				}
			}
			return true
		})
		for _, d := range parsed.Decls {
			if fn, ok := d.(*ast.FuncDecl); ok && fn.Recv == nil && strings.HasPrefix(fn.Name.Name, "Test") {
				out[fn.Name.Name] = testSource{texts}
			}
		}
	}
	return out, nil
}

// TestFailuresCheckFindsErrors checks that invalid tables are reported.
func TestFailuresCheckFindsErrors(t *testing.T) {
	row := func(proof string) string { return "| A | b | c | d | e | f | " + proof + " |" }
	tests := map[string]struct{ text, want string }{
		"valid":           {row("`tests/dialects.TestFailuresCheckFindsErrors/valid`, `worker.TestExitCodes/wrong settings`"), ""},
		"no proof":        {row("somebody saw it"), "names no test"},
		"no such test":    {row("`tests/dialects.TestNobody`"), "tests/dialects has no test TestNobody"},
		"no such package": {row("`nowhere.TestA`"), "has no tests"},
		"no such subtest": {row("`tests/chaos.TestChaosCheckFindsErrors/the moon falls`"), `no subtest "the moon falls"`},
		"malformed name":  {row("`make test`"), "is not of the form"},
		"missing cell":    {"| A | b | `tests/replay.TestReplay` |", "3 cells"},
		"empty cell":      {"| A | b | c | | e | f | `tests/replay.TestReplay` |", "an empty one"},
		"duplicate line":  {row("`tests/replay.TestReplay`") + "\n" + row("`tests/replay.TestReplay`"), "duplicate entry A/b"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			var lines int
			got := strings.Join(tableProblems(tc.text, "../..", 7, &lines), "\n")
			if (got == "") != (tc.want == "") || !strings.Contains(got, tc.want) {
				t.Errorf("problems = %q, want %q", got, tc.want)
			}
		})
	}
}
