package tool

import "testing"

func TestCompleteResults(t *testing.T) {
	for name, tc := range map[string]struct {
		raw, want string
		failed    bool
	}{
		"text":             {raw: `{"content":[{"type":"text","text":"Hello, <Test> & \u00e9!"}]}`, want: `{"content":[{"text":"Hello, <Test> & é!","type":"text"}]}`},
		"type and _meta":   {raw: `{"_meta":{"a":1},"type":"x","content":[{"_meta":{"b": 2},"type":"text","text":"a"}]}`, want: `{"content":[{"text":"a","_meta":{"b":2},"type":"text"}]}`},
		"error":            {raw: `{"isError":true,"content":[{"type":"text","text":"no"}]}`, want: `{"content":[{"text":"no","type":"text"}],"isError":true}`, failed: true},
		"explicit success": {raw: `{"isError":false,"content":[]}`, want: `{"content":[],"isError":false}`},
		"null fields":      {raw: `{"content":null,"isError":null,"structuredContent":null}`, want: `{"content":[]}`},
		"structured":       {raw: `{"structuredContent":{"b": 12345678901234567890, "a": "<"},"content":[]}`, want: `{"content":[],"structuredContent":{"b":12345678901234567890,"a":"<"}}`},
		"image":            {raw: `{"content":[{"type":"image","mimeType":"image/png","data":"aGVsbG8=","annotations":null}]}`, want: `{"content":[{"data":"aGVsbG8=","mimeType":"image/png","type":"image"}]}`},
		"link": {raw: `{"content":[{"type":"resource_link","mimeType":"x/y","uri":"f:/a","name":"n","size":7}]}`,
			want: `{"content":[{"name":"n","uri":"f:/a","size":7,"mimeType":"x/y","type":"resource_link"}]}`},
		"resource":       {raw: `{"content":[{"type":"resource","resource":{"uri":"f:/a", "text":"in"}}]}`, want: `{"content":[{"resource":{"uri":"f:/a","text":"in"},"type":"resource"}]}`},
		"unknown fields": {raw: `{"more":1,"content":[{"type":"text","text":"a","more":1}]}`, want: `{"content":[{"text":"a","type":"text"}]}`},
	} {
		t.Run(name, func(t *testing.T) {
			s := &session{at: &target{id: "x"}}
			got, err := s.callResult("t", []byte(tc.raw), true, nil)
			if err != nil || got.Text != tc.want || got.Failed != tc.failed {
				t.Errorf("got %q, %v, %v; want %q", got.Text, got.Failed, err, tc.want)
			}
		})
	}
}
