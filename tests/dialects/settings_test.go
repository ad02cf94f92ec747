package dialects

import (
	"cmp"
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

	"weft/worker/config"
)

// Patterns of references to settings: by path, as a line of weft.yaml, after a verb, and by environment variable.
var (
	referenceRow    = regexp.MustCompile("(?m)^\\| `([a-z_.A-Z]+)` \\|")
	variablePattern = regexp.MustCompile(`\bWEFT_[A-Z0-9_]*[A-Z0-9]\b`)
	verbPattern     = regexp.MustCompile(`\b(?:[Ss]et|[Rr]aise|[Ll]ower|weft\.yaml:) ` + "`?" + `([a-z]+(?:_[a-z]+)+)\b`)
	snakeWord       = regexp.MustCompile(`\b[a-z]+(?:_[a-z]+)+\b`)
	lineKey         = regexp.MustCompile(`[{,] ?([a-z_]+): `)
	// otherNames matches files, hosts, values of the chart, fields of documents, and a variable of the Compose file.
	otherNames = regexp.MustCompile(`^(codec\.mjs|store\.id|tools\.example\..*|agents\.a1b2c.*|serve\.(enabled|ingress\..*|tokens\..*)|store\.claim|max_iterations|max_num_messages|data_connections|tool_type|WEFT_TOKEN)$`)
)

// reference holds the settings that worker config -reference lists.
type reference struct {
	text             string
	keys             [][]string
	variables        []*regexp.Regexp
	pathNamed, lined *regexp.Regexp
}

func newReference(t *testing.T) *reference {
	t.Helper()
	r := &reference{text: config.Reference()}
	var sections []string
	for _, m := range referenceRow.FindAllStringSubmatch(r.text, -1) {
		key := strings.Split(m[1], ".")
		r.keys = append(r.keys, key)
		if len(key) > 1 && !slices.Contains(sections, key[0]) {
			sections = append(sections, key[0])
		}
	}
	if len(r.keys) < 100 {
		t.Fatalf("the reference has %d settings, want at least 100", len(r.keys))
	}
	for _, v := range variablePattern.FindAllString(r.text, -1) {
		r.variables = append(r.variables, regexp.MustCompile("^"+strings.ReplaceAll(v, "NAME", `\w+`)+"(_FILE)?$"))
	}
	section := `(` + strings.Join(sections, "|") + `)`
	r.pathNamed = regexp.MustCompile(`(?:^|[^\w/.-])(` + section + `(?:\.(?:[a-z_0-9]+|[A-Z]+|%[a-z]|"[^"]+"))+)(?:[^\w]|$)`)
	r.lined = regexp.MustCompile(`\b` + section + `: \{[^\n]*`)
	return r
}

// has reports whether path names a setting or a section. NAME and the verbs of package fmt match any name.
func (r *reference) has(path []string) bool {
	return slices.ContainsFunc(r.keys, func(key []string) bool {
		for i, part := range path {
			switch {
			case i == len(key):
				return key[i-1] == "headers" || key[i-1] == "env"
			case key[i] != part && key[i] != "NAME" && part != "NAME" && part[0] != '%':
				return false
			}
		}
		return true
	})
}

// hasWord reports whether a setting of the section, or any setting if section is empty, has word in its path.
func (r *reference) hasWord(section, word string) bool {
	return slices.ContainsFunc(r.keys, func(key []string) bool { return (section == "" || key[0] == section) && slices.Contains(key, word) })
}

// unknown lists the settings that a text names but that do not exist; defined holds variables of programs and tests.
func (r *reference) unknown(text string, defined map[string]bool) (out []string) {
	for _, m := range r.pathNamed.FindAllStringSubmatch(text, -1) {
		if !r.has(strings.Split(m[1], ".")) {
			out = append(out, m[1])
		}
	}
	for _, m := range r.lined.FindAllStringSubmatch(text, -1) {
		for _, k := range lineKey.FindAllStringSubmatch(m[0], -1) {
			if !r.hasWord(m[1], k[1]) {
				out = append(out, m[1]+": {"+k[1])
			}
		}
	}
	for _, m := range verbPattern.FindAllStringSubmatch(text, -1) {
		if !r.hasWord("", m[1]) {
			out = append(out, m[1])
		}
	}
	if strings.Contains(text, "weft.yaml") && len(text) < 1000 {
		for _, m := range snakeWord.FindAllString(text, -1) {
			if !r.hasWord("", m) {
				out = append(out, m)
			}
		}
	}
	for _, m := range variablePattern.FindAllString(text, -1) {
		if !defined[m] && !slices.ContainsFunc(r.variables, func(v *regexp.Regexp) bool { return v.MatchString(m) }) {
			out = append(out, m)
		}
	}
	return slices.DeleteFunc(out, otherNames.MatchString)
}

// constants maps constants of the code to the names of settings that they hold.
type constants map[string]string

func (c constants) collect(n ast.Node) bool {
	spec, ok := n.(*ast.ValueSpec)
	if !ok || len(spec.Names) != len(spec.Values) {
		return true
	}
	for i, name := range spec.Names {
		if settingConst.MatchString(name.Name) {
			c[name.Name] = constants{}.text(spec.Values[i])
		}
	}
	return true
}

var (
	settingConst = regexp.MustCompile(`^Setting[A-Z]`)
	// verbs matches the verbs of package fmt.
	verbs = regexp.MustCompile(`%[-+# 0-9.]*[a-z]`)
)

// text returns the text of an expression of literals, constants, concatenations and formats, with NAME for the parts that are
// known only at run time. It is empty if no part is known.
func (c constants) text(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.BasicLit:
		if e.Kind == token.STRING {
			text, _ := strconv.Unquote(e.Value)
			return text
		}
	case *ast.Ident:
		return c[e.Name]
	case *ast.SelectorExpr:
		return c[e.Sel.Name]
	case *ast.BinaryExpr:
		if left, right := c.text(e.X), c.text(e.Y); e.Op == token.ADD && left+right != "" {
			return cmp.Or(left, "NAME") + cmp.Or(right, "NAME")
		}
	case *ast.CallExpr:
		if f, ok := e.Fun.(*ast.SelectorExpr); ok && f.Sel.Name == "setting" && len(e.Args) == 1 { // of a connection
			return "connections.NAME." + c.text(e.Args[0])
		}
		for i, arg := range e.Args {
			if lit, ok := arg.(*ast.BasicLit); ok && lit.Kind == token.STRING && strings.Contains(lit.Value, "%") {
				next := i
				return verbs.ReplaceAllStringFunc(c.text(lit), func(verb string) string {
					if next++; next < len(e.Args) {
						return cmp.Or(c.text(e.Args[next]), "NAME")
					}
					return "NAME"
				})
			}
		}
	}
	return ""
}

// repositoryTexts returns the texts of the repository by file: named has those of READMEs and of code except tests, all those of all code.
func repositoryTexts(t *testing.T) (named, all map[string][]string) {
	t.Helper()
	named, all = map[string][]string{}, map[string][]string{}
	files, consts := map[string]*ast.File{}, constants{}
	err := filepath.WalkDir("../..", func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
		case d.IsDir() && slices.Contains([]string{".git", ".dev", "testdata", "bin", "node_modules"}, d.Name()):
			return fs.SkipDir
		case strings.HasSuffix(path, ".md") && d.Name() != "CHANGELOG.md": // it contains old names
			var raw []byte
			raw, err = os.ReadFile(path)
			named[path] = []string{string(raw)}
		case strings.HasSuffix(path, ".go"):
			var parsed *ast.File
			if parsed, err = parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution); err != nil {
				return err
			}
			files[path] = parsed
			ast.Inspect(parsed, consts.collect)
		}
		return err
	})
	if err != nil || len(files) < 300 {
		t.Fatalf("%d files, %v", len(files), err)
	}
	for path, parsed := range files {
		ast.Inspect(parsed, func(n ast.Node) bool {
			if e, ok := n.(ast.Expr); ok {
				if text := consts.text(e); text != "" {
					all[path] = append(all[path], text)
				}
			}
			return true
		})
		if !strings.HasSuffix(path, "_test.go") {
			named[path] = all[path]
		}
	}
	return named, all
}

// TestSettingsInTexts checks that the settings named in messages and READMEs exist.
func TestSettingsInTexts(t *testing.T) {
	r := newReference(t)
	named, all := repositoryTexts(t)
	defined := map[string]bool{}
	for _, texts := range all {
		for _, text := range texts {
			defined[text] = true
		}
	}
	for path, texts := range named {
		for _, text := range texts {
			for _, name := range r.unknown(text, defined) {
				t.Errorf("%s names the setting %s, which does not exist", path, name)
			}
		}
	}
	for text, want := range map[string]string{
		"raise max_message_bytes": "max_message_bytes", "set store.dir, or store.folder.": "store.folder", "providers.%s.base_url": "", `connections."a b".urls`: `connections."a b".urls`,
		"policies: {%s: {scripts: true, model: [%q]}}": "policies: {model", "WEFT_STORE_DIR": "", "WEFT_STORE_FOLDER": "WEFT_STORE_FOLDER", "connections.c.headers.A": "",
	} {
		if got := strings.Join(r.unknown(text, nil), " "); got != want {
			t.Errorf("unknown settings in %q = %q, want %q", text, got, want)
		}
	}
	consts := constants{"SettingConnections": "connections"}
	for code, want := range map[string]string{
		`fmt.Sprintf("set %s.%q.urls", tool.SettingConnections, id)`: "connections.NAME.urls", `"connections." + id + ".ulr"`: "connections.NAME.ulr", `t.setting("time_out")`: "connections.NAME.time_out",
		`"give " + name + " a max_paylod in weft.yaml"`: "max_paylod", `add("%d: %s.%s", line, SettingConnections, key)`: "",
	} {
		e, err := parser.ParseExpr(code)
		if err != nil {
			t.Fatal(err)
		}
		if got := strings.Join(r.unknown(consts.text(e), nil), " "); got != want {
			t.Errorf("unknown settings in %s, with the text %q = %q, want %q", code, consts.text(e), got, want)
		}
	}
}
