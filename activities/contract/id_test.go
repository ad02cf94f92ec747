package contract

import (
	"math/rand"
	"strings"
	"testing"
	"unicode/utf8"
)

func TestEscapeID(t *testing.T) {
	tests := map[string]struct{ id, want string }{
		"a plain id":                    {"write-up_2.a b", "write-up_2.a b"},
		"non-ASCII":                     {"Prüfung 検", "Pr%C3%BCfung %E6%A4%9C"},
		"reserved characters":           {"a/b#1~2:c[3]%", "a%2Fb%231%7E2%3Ac%5B3%5D%25"},
		"control characters":            {"a\x00\n\x7f", "a%00%0A%7F"},
		"an escape sequence is escaped": {"a%2Fb", "a%252Fb"},
		"empty":                         {"", ""},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			if got := EscapeID(tc.id); got != tc.want {
				t.Errorf("EscapeID(%q) = %q, want %q", tc.id, got, tc.want)
			}
		})
	}
}

func TestIDsAreUnique(t *testing.T) {
	rng := rand.New(rand.NewSource(1))
	letters := []rune("ab/#~:[]%25F\n1é")
	seen := map[string]string{}
	for range 20_000 {
		var id strings.Builder
		for range rng.Intn(7) {
			id.WriteRune(letters[rng.Intn(len(letters))])
		}
		for _, n := range []int{1, 2} {
			x := ExecutionID(id.String(), 1, n) + "/tool/1"
			owner := id.String() + "\x00" + strings.Repeat("~", n)
			if other, ok := seen[x]; ok && other != owner {
				t.Fatalf("%q and %q are both %q", other, owner, x)
			}
			seen[x] = owner
		}
	}
}

func TestLongIDsAreDistinct(t *testing.T) {
	long := strings.Repeat("x", 300)
	one, two := ExecutionID(long+"a", 1, 1), ExecutionID(long+"b", 1, 1)
	if one == two {
		t.Error("two long ids are the same")
	}
	if one != ExecutionID(long+"a", 1, 1) || ExecutionID(long+"a", 2, 1) == one {
		t.Errorf("%q is not stable, or does not depend on the step", one)
	}
	if got := ShortenID(strings.Repeat("y", MaxIDBytes)); got != strings.Repeat("y", MaxIDBytes) {
		t.Errorf("an id of the maximum length became %q", got)
	}
	if got := ShortenID(one + "/model/1"); len(got) > MaxIDBytes || got == ShortenID(one+"/model/2") {
		t.Errorf("an activity of a long id is %q", got)
	}
}

func FuzzEscapeID(f *testing.F) {
	for _, s := range []string{"a", "a/b", strings.Repeat("é", 150), "\xff\xfe", "a#1~2", strings.Repeat("%", 100)} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, id string) {
		got := EscapeID(id)
		if len(got) > MaxIDBytes || strings.ContainsAny(got, "/#~:[]\x00\n\x7f") || !utf8.ValidString(got) {
			t.Fatalf("EscapeID(%q) = %q", id, got)
		}
	})
}

func TestSplitPlace(t *testing.T) {
	for _, tc := range []struct{ id, place, call string }{
		{"all#3:2/greet#2/model/1", "all#3:2/", "greet#2/model/1"},
		{"all#3~2:12/tools/crm", "all#3~2:12/", "tools/crm"},
		{"greet#2/model/1", "", "greet#2/model/1"},
		{"boss#1:helper~2/model/1", "", "boss#1:helper~2/model/1"},
		{"a%3A1#2/tool/call:7", "", "a%3A1#2/tool/call:7"},
		{"tools/a:1", "", "tools/a:1"},
		{"all#3:2", "", "all#3:2"},
		{"", "", ""},
	} {
		if place, call := SplitPlace(tc.id); place != tc.place || call != tc.call {
			t.Errorf("%q: got %q, %q, want %q, %q", tc.id, place, call, tc.place, tc.call)
		}
	}
}

func TestFlowID(t *testing.T) {
	for id, want := range map[string]string{
		"run": "run", "run/b#2": "run", "run/b#2~3": "run", "run/all#3:2": "run/all#3:2", "run/all#3:2/b#1": "run/all#3:2", "b#2": "", "": "",
	} {
		if got := FlowID(id); got != want {
			t.Errorf("%q: got %q, want %q", id, got, want)
		}
	}
}
