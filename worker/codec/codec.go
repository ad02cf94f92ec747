// Package codec compresses and encrypts payloads on their way to Temporal, in the format of
// Temporal's public samples, so that a client in any language can read and write them with
// its own codec or through the endpoint [Codec.Handler].
//
// It encrypts all data that the server does not need to read: inputs and results of runs and activities, signals,
// results of queries and Updates, memos, summaries and details, heartbeats, and the texts of failures.
// Ids, types, failure classes, search attributes, times and sizes remain readable. Payloads that are not
// encoded are passed through, so that a codec can be enabled while runs are open.
//
// Start at [Open] and [Codec.Apply].
package codec

import (
	"bytes"
	"compress/zlib"
	"crypto/aes"
	"crypto/cipher"
	"fmt"
	"io"
	"strconv"

	commonpb "go.temporal.io/api/common/v1"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/converter"
	"google.golang.org/protobuf/proto"

	"weft/activities/contract"
	"weft/activities/textutil"
)

// Names of the public format. They are part of histories and must never change.
const (
	encodingEncrypted = "binary/encrypted"
	encodingZlib      = "binary/zlib"
	metadataKeyID     = "encryption-key-id"
)

// KeyBytes is the length of an AES-256 key.
const KeyBytes = 32

// Key is an encryption key.
type Key struct {
	// ID identifies the key; it is stored in plain text with each payload.
	ID string
	// Secret is [KeyBytes] long.
	Secret []byte
}

// Settings specify how payloads are encoded. The zero value leaves them unchanged.
type Settings struct {
	// Compress compresses payloads with zlib if that makes them smaller.
	Compress bool
	// Encrypt is the id of the key to encrypt with; if it is empty, payloads are not encrypted.
	Encrypt string
	// Keys are the keys to decrypt with, each for payloads with its id.
	Keys []Key
	// MaxBytes limits the decompressed size of a payload; 0 means [DefaultMaxBytes].
	MaxBytes int
}

// DefaultMaxBytes is the default limit of a payload's decompressed size.
const DefaultMaxBytes = 256 << 20

// Codec encodes and decodes payloads. It is safe for concurrent use.
type Codec struct {
	compress converter.PayloadCodec
	encrypt  string
	keys     map[string]cipher.AEAD
	most     int64
}

var _ converter.PayloadCodec = (*Codec)(nil)

// Open returns a codec. The error names an invalid key and never contains its secret.
func Open(s Settings) (*Codec, error) {
	c := &Codec{encrypt: s.Encrypt, keys: map[string]cipher.AEAD{}, most: DefaultMaxBytes}
	if s.MaxBytes > 0 {
		c.most = int64(s.MaxBytes)
	}
	if s.Compress {
		c.compress = converter.NewZlibCodec(converter.ZlibCodecOptions{})
	}
	for _, k := range s.Keys {
		if len(k.Secret) != KeyBytes {
			return nil, fmt.Errorf("the key %q has %d bytes, expected %d", k.ID, len(k.Secret), KeyBytes)
		}
		if c.keys[k.ID] != nil {
			return nil, fmt.Errorf("duplicate key %q", k.ID)
		}
		block, err := aes.NewCipher(k.Secret)
		if err != nil {
			return nil, fmt.Errorf("the key %q: %w", k.ID, err)
		}
		if c.keys[k.ID], err = cipher.NewGCMWithRandomNonce(block); err != nil {
			return nil, fmt.Errorf("the key %q: %w", k.ID, err)
		}
	}
	if c.encrypt != "" && c.keys[c.encrypt] == nil {
		return nil, fmt.Errorf("encryption key %q not found", c.encrypt)
	}
	return c, nil
}

// Encrypts reports whether payloads are encrypted.
func (c *Codec) Encrypts() bool { return c.encrypt != "" }

// Apply makes a client, and the workers that use it, encode and decode payloads. Call it before the
// store's Apply: stored payloads are encoded.
func (c *Codec) Apply(o *client.Options) {
	inner := o.DataConverter
	if inner == nil {
		inner = converter.GetDefaultDataConverter()
	}
	o.DataConverter = &Converter{DataConverter: converter.NewCodecDataConverter(inner, c), encrypts: c.Encrypts()}
}

// Converter is a data converter that uses a codec.
type Converter struct {
	converter.DataConverter
	encrypts bool
}

// Encrypts reports whether the texts of failures must be encrypted as well.
func (c *Converter) Encrypts() bool { return c.encrypts }

// Encode compresses payloads, then encrypts them.
func (c *Codec) Encode(list []*commonpb.Payload) ([]*commonpb.Payload, error) {
	var err error
	if c.compress != nil {
		if list, err = c.compress.Encode(list); err != nil {
			return nil, fmt.Errorf("compress a payload: %w", err)
		}
	}
	if c.encrypt == "" {
		return list, nil
	}
	out := make([]*commonpb.Payload, len(list))
	for i, p := range list {
		if out[i], err = c.seal(p); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// seal encrypts a payload: the nonce, followed by the AES-GCM ciphertext.
func (c *Codec) seal(p *commonpb.Payload) (*commonpb.Payload, error) {
	raw, err := proto.Marshal(p)
	if err != nil {
		return nil, fmt.Errorf("encode a payload: %w", err)
	}
	return &commonpb.Payload{
		Metadata: map[string][]byte{converter.MetadataEncoding: []byte(encodingEncrypted), metadataKeyID: []byte(c.encrypt)},
		Data:     c.keys[c.encrypt].Seal(nil, nil, raw, nil),
	}, nil
}

// Decode decrypts and decompresses payloads; those that are neither encrypted nor compressed
// are returned unchanged. Its error is a [contract.Failure] of class payload_key if a key is
// missing or incorrect, payload_lost if a payload is corrupt, too_large if it exceeds the limit.
func (c *Codec) Decode(list []*commonpb.Payload) ([]*commonpb.Payload, error) {
	out := make([]*commonpb.Payload, len(list))
	for i, p := range list {
		var err error
		if out[i], err = c.open(p); err == nil {
			out[i], err = c.expand(out[i])
		}
		if err != nil {
			return nil, err
		}
	}
	return out, nil
}

func (c *Codec) open(p *commonpb.Payload) (*commonpb.Payload, error) {
	if string(p.GetMetadata()[converter.MetadataEncoding]) != encodingEncrypted {
		return p, nil
	}
	id := string(p.GetMetadata()[metadataKeyID])
	key := c.keys[id]
	if key == nil {
		return nil, &contract.Failure{Class: contract.ClassPayloadKey,
			Text:   fmt.Sprintf("a payload is encrypted with the key %s, which this process does not have", short(id)),
			Remedy: "add that key to WEFT_CODEC_KEYS (ID:KEY) of every worker and starter, and restart them"}
	}
	if len(p.GetData()) < key.Overhead() {
		return nil, damaged("an encrypted payload has only %d bytes", len(p.GetData()))
	}
	raw, err := key.Open(nil, nil, p.Data, nil)
	if err != nil {
		return nil, &contract.Failure{Class: contract.ClassPayloadKey,
			Text:   fmt.Sprintf("a payload is encrypted with the key %s, but this process's key with that id does not decrypt it", short(id)),
			Remedy: "in WEFT_CODEC_KEYS of every worker and starter, restore the key that this id had when the payload was written; use a new id for a new key"}
	}
	out := &commonpb.Payload{}
	if err := proto.Unmarshal(raw, out); err != nil {
		return nil, damaged("the content decrypted with the key %s is not a payload: %v", short(id), err)
	}
	return out, nil
}

func (c *Codec) expand(p *commonpb.Payload) (*commonpb.Payload, error) {
	if string(p.GetMetadata()[converter.MetadataEncoding]) != encodingZlib {
		return p, nil
	}
	r, err := zlib.NewReader(bytes.NewReader(p.GetData()))
	if err != nil {
		return nil, damaged("a compressed payload of %d bytes: %v", len(p.GetData()), err)
	}
	raw, err := io.ReadAll(io.LimitReader(r, c.most+1))
	if err != nil {
		return nil, damaged("a compressed payload of %d bytes: %v", len(p.GetData()), err)
	}
	if int64(len(raw)) > c.most {
		return nil, &contract.Failure{Class: contract.ClassTooLarge, Remedy: "send less",
			Text: fmt.Sprintf("a compressed payload of %d bytes decompresses to more than %d", len(p.GetData()), c.most)}
	}
	out := &commonpb.Payload{}
	if err := proto.Unmarshal(raw, out); err != nil {
		return nil, damaged("the decompressed content is not a payload: %v", err)
	}
	return out, nil
}

func damaged(format string, args ...any) error {
	return &contract.Failure{Class: contract.ClassPayloadLost, Text: fmt.Sprintf(format, args...), Remedy: "start the run again"}
}

// short returns an id, quoted and truncated, for a message: it may be forged.
func short(id string) string {
	return strconv.Quote(textutil.Cut(id, 80))
}
