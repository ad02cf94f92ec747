package source

import "testing"

// TestMisspeltNames checks that the nearest name is suggested if it is close enough; swapped neighbors
// count as one edit.
func TestMisspeltNames(t *testing.T) {
	s := NewSuggester([]string{"model", "tool", "timeouts", "flow", "first_retry"})
	for wrong, want := range map[string]string{
		"mdoel": "model", "flwo": "flow", "modell": "model", "odel": "model", "timeuots": "timeouts", "itmeuots": "timeouts",
		"FirstRetry": "first_retry", "tooll": "tool", "fow": "", "owlf": "", "xyz": "", "": "", "tiemotus": "timeouts", "ttmeoust": "timeouts",
		"imteuotss": "",
	} {
		if got := s.Nearest(wrong); got != want {
			t.Errorf("Nearest(%q) = %q, want %q", wrong, got, want)
		}
	}
}

// TestDistanceIsBounded checks that the bounded distance agrees with the unbounded one.
func TestDistanceIsBounded(t *testing.T) {
	words := []string{"", "a", "ab", "ba", "abc", "acb", "cab", "bca", "abcd", "badc", "abdc", "acbd", "dcba", "aabb", "abab"}
	for _, a := range words {
		for _, b := range words {
			full := distance(a, b, 99)
			if back := distance(b, a, 99); back != full {
				t.Errorf("distance(%q, %q) = %d, reversed %d", a, b, full, back)
			}
			for limit := range 4 {
				if got := distance(a, b, limit); (got <= limit) != (full <= limit) || got <= limit && got != full {
					t.Errorf("distance(%q, %q) = %d, with limit %d it is %d", a, b, full, limit, got)
				}
			}
		}
	}
}
