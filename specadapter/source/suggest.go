package source

import (
	"strings"
	"unicode"
)

// Suggester finds the name that an author may have meant. The zero value is not usable.
type Suggester struct {
	names  []string
	folded map[string]string
	left   int
}

// Bounds of the search for a misspelt name, so that its cost stays small whatever a
// document holds; beyond them only names that differ in case and punctuation are found.
const (
	maxSearches      = 20
	maxSearchedNames = 2000
	maxSearchedBytes = 40
)

// NewSuggester knows some names.
func NewSuggester(names []string) *Suggester {
	s := &Suggester{names: names, folded: make(map[string]string, len(names)), left: maxSearches}
	for _, n := range names {
		f := Fold(n)
		if _, ok := s.folded[f]; !ok {
			s.folded[f] = n
		}
	}
	return s
}

// Nearest returns the known name that differs from a wrong one in case, punctuation or at
// most two letters, two neighbours that changed places being one, or "".
func (s *Suggester) Nearest(wrong string) string {
	if n, ok := s.folded[Fold(wrong)]; ok && Fold(wrong) != "" {
		return n
	}
	if s.left == 0 || len(wrong) > maxSearchedBytes || len(s.names) > maxSearchedNames {
		return ""
	}
	s.left--
	limit := min(2, (len(wrong)-1)/3)
	best := ""
	for _, n := range s.names {
		if d := distance(wrong, n, limit); d <= limit {
			best, limit = n, d-1
		}
	}
	return best
}

// Fold reduces a name to its lower-case letters and digits.
func Fold(s string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsLetter(r) || unicode.IsDigit(r) {
			return unicode.ToLower(r)
		}
		return -1
	}, s)
}

// distance counts insertions, deletions, replacements and swaps from a to b, up to a limit.
func distance(a, b string, limit int) int {
	if len(a)-len(b) > limit || len(b)-len(a) > limit || limit < 0 {
		return limit + 1
	}
	before, above, row := make([]int, len(b)+1), make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	last := 0 // the least of the row above
	for i := 1; i <= len(a); i++ {
		before, above, row = above, row, before
		row[0] = i
		least := i
		for j := 1; j <= len(b); j++ {
			row[j] = min(above[j], row[j-1]) + 1
			if a[i-1] == b[j-1] {
				row[j] = min(row[j], above[j-1])
			} else {
				row[j] = min(row[j], above[j-1]+1)
			}
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				row[j] = min(row[j], before[j-2]+1)
			}
			least = min(least, row[j])
		}
		if least > limit && last >= limit {
			return limit + 1
		}
		last = least
	}
	return row[len(b)]
}
