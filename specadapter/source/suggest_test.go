package source

import "testing"

// A misspelt name is suggested where it is near enough, by letters or by neighbours that
// changed places.
func TestMisspeltNames(t *testing.T) {
	s := NewSuggester([]string{"model", "tool", "timeouts", "flow", "first_retry"})
	for wrong, want := range map[string]string{
		"mdoel": "model", "flwo": "flow", "modell": "model", "odel": "model", "timeuots": "timeouts", "itmeuots": "timeouts",
		"FirstRetry": "first_retry", "tooll": "tool", "fow": "", "owlf": "", "xyz": "", "": "", "tiemotus": "timeouts", "ttmeoust": "timeouts",
		"imteuotss": "",
	} {
		if got := s.Nearest(wrong); got != want {
			t.Errorf("for %q it is %q, want %q", wrong, got, want)
		}
	}
}

// The bounded search agrees with the whole one.
func TestDistanceIsBounded(t *testing.T) {
	words := []string{"", "a", "ab", "ba", "abc", "acb", "cab", "bca", "abcd", "badc", "abdc", "acbd", "dcba", "aabb", "abab"}
	for _, a := range words {
		for _, b := range words {
			whole := distance(a, b, 99)
			if back := distance(b, a, 99); back != whole {
				t.Errorf("from %q to %q it is %d, back %d", a, b, whole, back)
			}
			for limit := range 4 {
				if got := distance(a, b, limit); (got <= limit) != (whole <= limit) || got <= limit && got != whole {
					t.Errorf("from %q to %q it is %d, within %d it is %d", a, b, whole, limit, got)
				}
			}
		}
	}
}
