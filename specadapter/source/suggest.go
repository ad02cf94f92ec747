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
// most two letters, or "".
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

// distance is the number of bytes to insert, delete or replace to get from a to b, or
// something above limit.
func distance(a, b string, limit int) int {
	if len(a)-len(b) > limit || len(b)-len(a) > limit || limit < 0 {
		return limit + 1
	}
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := 1; i <= len(a); i++ {
		diagonal, least := row[0], i
		row[0] = i
		for j := 1; j <= len(b); j++ {
			cost := diagonal
			if a[i-1] != b[j-1] {
				cost++
			}
			diagonal = row[j]
			row[j] = min(cost, row[j]+1, row[j-1]+1)
			least = min(least, row[j])
		}
		if least > limit {
			return limit + 1
		}
	}
	return row[len(b)]
}
