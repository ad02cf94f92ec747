package contract

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	commonpb "go.temporal.io/api/common/v1"
)

// TestUnread checks that the placeholder of an unreadable payload holds the reason, and that forged placeholders are harmless.
func TestUnread(t *testing.T) {
	want := &Failure{Class: ClassPayloadKey, Text: "no key", Remedy: "add it"}
	p, err := Unreadable(want)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, Unread(p)); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	for _, data := range []string{"", "x", "[]", "{}"} {
		p.Data = []byte(data)
		if f := Unread(p); f == nil || f.Class != ClassPayloadLost || f.Text == "" {
			t.Errorf("%q gives %+v", data, f)
		}
	}
	plain := &commonpb.Payload{Metadata: map[string][]byte{"encoding": []byte("json/plain")}, Data: []byte(`{"class":"x","text":"y"}`)}
	for _, p := range []*commonpb.Payload{nil, plain} {
		if f := Unread(p); f != nil {
			t.Errorf("%v gives %+v", p, f)
		}
	}
}
