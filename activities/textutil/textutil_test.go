package textutil

import "testing"

func TestTruncate(t *testing.T) {
	for _, tc := range []struct {
		in   string
		n    int
		want string
	}{
		{"", 0, ""}, {"abc", 3, "abc"}, {"abcd", 3, "abc..."}, {"aéb", 2, "a..."}, {"aéb", 3, "aé..."}, {"éé", 1, "..."}, {"a\xff\xff", 2, "a\xff..."},
	} {
		if got := Truncate(tc.in, tc.n); got != tc.want {
			t.Errorf("Truncate(%q, %d) = %q, want %q", tc.in, tc.n, got, tc.want)
		}
	}
}

func TestJSON(t *testing.T) {
	raw, err := JSON(map[string]string{"a": "<x> & \u2028"})
	if want := `{"a":"<x> & \u2028"}`; err != nil || string(raw) != want {
		t.Errorf("JSON() = %s, %v, want %s", raw, err, want)
	}
	if _, err := JSON(func() {}); err == nil {
		t.Error("JSON() of a function succeeded")
	}
}
