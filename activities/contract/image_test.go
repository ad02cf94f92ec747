package contract

import (
	"encoding/base64"
	"encoding/json"
	"strings"
	"testing"
)

func TestInputWithImages(t *testing.T) {
	image := func(file string) Image {
		i, err := NewImage([]byte(file))
		if err != nil {
			t.Fatal(err)
		}
		return i
	}
	jpeg, webp := image("\xff\xd8\xff\xe0rest"), image("RIFF\x10\x00\x00\x00WEBPVP8 ")
	tests := map[string]struct {
		images string
		err    string
	}{
		"two":          {images: mustEncode(t, []Image{jpeg, webp})},
		"no base64":    {images: `[{"media_type":"image/png","data":"!"}]`, err: "images[0].data is no base64"},
		"line breaks":  {images: `[{"media_type":"image/gif","data":"R0lG\nODlh"}]`, err: "images[0].data is no base64"},
		"another type": {images: strings.Replace(mustEncode(t, []Image{jpeg, webp}), "image/webp", "image/png", 1), err: `images[1].media_type is "image/png", but data is image/webp`},
		"no image":     {images: `[{"media_type":"image/png","data":"aGVsbG8="}]`, err: "images[0].data: it begins like no PNG"},
		"empty":        {images: `[{}]`, err: "images[0].data: it begins like no PNG"},
		"an address":   {images: `[{"media_type":"image/png","url":"https://x.test"}]`, err: `unknown field "url"`},
		"too large":    {images: mustEncode(t, []Image{{MediaType: "image/gif", Data: base64.StdEncoding.EncodeToString([]byte("GIF89a" + strings.Repeat("x", MaxImageBytes)))}}), err: "images[0].data: it has 3932166 bytes, at most 3932160"},
		"too many":     {images: "[" + strings.Repeat(mustEncode(t, jpeg)+",", MaxImages) + mustEncode(t, jpeg) + "]", err: "images has 21, at most 20"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			in, err := ReadInput(json.RawMessage(`{"v":1,"flow":{"name":"x"},"input":"look","images":` + tc.images + `}`))
			switch {
			case tc.err == "" && (err != nil || len(in.Images) != 2):
				t.Errorf("%v, %v", in, err)
			case tc.err != "" && (err == nil || !strings.Contains(err.Error(), tc.err)):
				t.Errorf("error is %v, want %q", err, tc.err)
			}
		})
	}
	m := InputMessage("look", []Image{jpeg, webp})
	if want := "look\n[image 1, image/jpeg, 8 bytes]\n[image 2, image/webp, 16 bytes]"; m.Text != want || len(m.Images) != 2 {
		t.Errorf("message %q, want %q", m.Text, want)
	}
	if again := InputMessage(m.Text, m.Images); again.Text != m.Text {
		t.Errorf("notes that are there already come again: %q", again.Text)
	}
	if alone := InputMessage("", []Image{jpeg}); alone.Text != "[image 1, image/jpeg, 8 bytes]" {
		t.Errorf("an image alone has the text %q", alone.Text)
	}
}

func mustEncode(t *testing.T, v any) string {
	t.Helper()
	raw, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}
