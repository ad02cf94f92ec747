package agentspec

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

func TestExplore(t *testing.T) {
	base := "../../../shared/corpus/" + os.Getenv("EXPLORE")
	raw, err := os.ReadFile(base + "/INDEX.tsv")
	if err != nil { t.Skip() }
	ph := regexp.MustCompile(`\[\[[A-Za-z_]+\]\]`)
	for _, line := range strings.Split(string(raw), "\n")[1:] {
		col := strings.Split(line, "\t")
		if len(col) < 5 { continue }
		text, err := os.ReadFile(filepath.Join(base, col[0]))
		if err != nil { fmt.Println(err); continue }
		text = ph.ReplaceAll(text, []byte("http://localhost:5006"))
		verdict := col[len(col)-1]
		if os.Getenv("EXPLORE") == "agentspec" { verdict = col[10] }
		for _, p := range []string{os.Getenv("PROF")} {
			doc, diags := Load(col[0], text, Options{Profile: p})
			fmt.Printf("## %s %s | %s | ok=%v\n", p, col[0], verdict, doc != nil)
			for i, d := range diags {
				if i > 7 { fmt.Println("   ..."); break }
				fmt.Println("   ", strings.ReplaceAll(d.String(), "\n", " // "))
			}
		}
	}
}
