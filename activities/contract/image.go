package contract

import (
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
)

// Bounds of what a message shows a model.
const (
	// MaxImages is how many images one message has at most.
	MaxImages = 20
	// MaxImageBytes bounds one image, decoded: as base64 it is then the 5 MiB that providers take.
	MaxImageBytes = 15 << 20 / 4
	// ImageText is what an image counts for where a conversation's length is estimated, in bytes
	// of text: about what providers count for one.
	ImageText = 6_000
)

// Image is a picture that a model sees beside a message's text. It is given whole: an address
// would be fetched by others than the worker, outside of its rules.
type Image struct {
	// MediaType is image/png, image/jpeg, image/gif or image/webp.
	MediaType string `json:"media_type"`
	// Data is the file in base64, with padding.
	Data string `json:"data"`
}

// NewImage makes an image of a file. It fails where no provider would take it. Only the file itself says of what type
// it is: providers refuse whole requests where the type that is told is another.
func NewImage(file []byte) (Image, error) {
	media := http.DetectContentType(file)
	switch {
	case !slices.Contains([]string{"image/png", "image/jpeg", "image/gif", "image/webp"}, media):
		return Image{}, fmt.Errorf("it begins like no PNG, JPEG, GIF or WebP; convert it to one of them")
	case len(file) > MaxImageBytes:
		return Image{}, fmt.Errorf("it has %d bytes, at most %d are taken; make it smaller", len(file), MaxImageBytes)
	}
	return Image{media, base64.StdEncoding.EncodeToString(file)}, nil
}

// File decodes an image.
func (i *Image) File() ([]byte, error) { return base64.StdEncoding.Strict().DecodeString(i.Data) }

// check says what is wrong with an image that a client sends.
func (i *Image) check() error {
	file, err := i.File()
	if err == nil && strings.ContainsAny(i.Data, "\r\n") {
		err = errors.New("it has line breaks")
	}
	if err != nil {
		return fmt.Errorf("data is no base64 (standard alphabet, padded, in one line): %w", err)
	}
	made, err := NewImage(file)
	if err != nil {
		return fmt.Errorf("data: %w", err)
	}
	if made.MediaType != i.MediaType {
		return fmt.Errorf("media_type is %.100q, but data is %s", i.MediaType, made.MediaType)
	}
	return nil
}

// CheckImages says what is wrong with the images of one message.
func CheckImages(images []Image) error {
	if len(images) > MaxImages {
		return fmt.Errorf("images has %d, at most %d are taken", len(images), MaxImages)
	}
	for i := range images {
		if err := images[i].check(); err != nil {
			return fmt.Errorf("images[%d].%w", i, err)
		}
	}
	return nil
}

// Note stands for the n-th image of a message, from 1, in its text: for whoever reads the text
// alone, and so that the text can refer to it.
func (i *Image) Note(n int) string {
	return fmt.Sprintf("[image %d, %s, %d bytes]", n, i.MediaType, base64.StdEncoding.DecodedLen(len(i.Data))-strings.Count(i.Data[max(0, len(i.Data)-2):], "="))
}

// InputMessage is what a run was given as the message that its agents begin with. Images without
// a note in the text get one behind it.
func InputMessage(text string, images []Image) *Message {
	if text == "" && len(images) == 0 {
		text = "(no input was given)"
	}
	shown := text
	for i := range images {
		if note := images[i].Note(i + 1); !strings.Contains(text, note) {
			shown += "\n" + note
		}
	}
	return &Message{Role: RoleUser, Text: strings.TrimPrefix(shown, "\n"), Images: images}
}
