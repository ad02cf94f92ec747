package main

import (
	"bytes"
	"encoding/json"
	"strings"

	"weft/activities/contract"
	"weft/specadapter/source"
)

// readImages reads the files of -image.
func (a *app) readImages() ([]contract.Image, error) {
	if len(a.flags.images) > contract.MaxImages {
		return nil, bad("-image is given %d times; at most %d images are supported", len(a.flags.images), contract.MaxImages)
	}
	var out []contract.Image
	for _, name := range a.flags.images {
		data, err := a.readFile("-image", name)
		if err != nil {
			return nil, err
		}
		image, err := contract.NewImage(data)
		if err != nil {
			return nil, bad("-image %s: %v", name, err)
		}
		out = append(out, image)
	}
	return out, nil
}

// contentPart is a piece of what a person says: text, or an image.
type contentPart struct {
	Text  *string         `json:"text"`
	Image *contract.Image `json:"image"`
}

// readParts reads content parts: an array of {"text": ...} and {"image": {"media_type", "data"}},
// one of them an image at least. Any other JSON is none, and says so. Each image has its note at its
// place in the text.
func (g *given) readParts(v *source.Value) (bool, error) {
	if v.Kind != source.Array {
		return false, nil
	}
	var raw []map[string]json.RawMessage
	if json.Unmarshal(v.JSON(), &raw) != nil {
		return false, nil
	}
	pictures := 0
	for _, part := range raw {
		if len(part) != 1 || part["text"] == nil && part["image"] == nil {
			return false, nil
		}
		if part["image"] != nil {
			pictures++
		}
	}
	if pictures == 0 {
		return false, nil
	}
	var parts []contentPart
	d := json.NewDecoder(bytes.NewReader(v.JSON()))
	d.DisallowUnknownFields()
	if err := d.Decode(&parts); err != nil {
		return true, bad("-input-json: invalid content part: %v; want {\"text\": TEXT} or {\"image\": {\"media_type\": \"image/png\", \"data\": BASE64}}", err)
	}
	var text strings.Builder
	for _, p := range parts {
		if p.Text != nil {
			text.WriteString(*p.Text)
		}
		if p.Image != nil {
			g.images = append(g.images, *p.Image)
			text.WriteString(p.Image.Note(len(g.images)))
		}
	}
	g.text = text.String()
	if err := contract.CheckImages(g.images); err != nil {
		return true, bad("-input-json: %v", err)
	}
	return true, nil
}
