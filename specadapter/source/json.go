package source

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// json reads the text as JSON. The standard library decides what is JSON; only positions
// and order are added here.
func (p *parser) json() *Value {
	if !json.Valid(p.data) {
		var whole json.RawMessage
		p.jsonSyntax(json.Unmarshal(p.data, &whole))
		return nil
	}
	j := &jsonReader{parser: p, keys: map[string]string{}}
	return j.value(1)
}

// jsonReader walks the tokens of a text that is known to be JSON.
type jsonReader struct {
	*parser
	// at is where the next token is looked for.
	at int
	// keys are those that were read: a document has few, many times.
	keys map[string]string
}

// skip goes to the first byte of the next token and returns it.
func (j *jsonReader) skip() byte {
	for strings.IndexByte(" \t\r\n,:", j.data[j.at]) >= 0 {
		j.at++
	}
	return j.data[j.at]
}

// next returns the next token as it is written, and the offset of its first byte.
func (j *jsonReader) next() (token []byte, at int) {
	first := j.skip()
	at = j.at
	j.at++
	switch {
	case first == '"':
		for ; j.data[j.at] != '"'; j.at++ {
			if j.data[j.at] == '\\' {
				j.at++
			}
		}
		j.at++
	case strings.IndexByte("{}[]", first) < 0:
		for j.at < len(j.data) && strings.IndexByte(" \t\r\n,:]}", j.data[j.at]) < 0 {
			j.at++
		}
	}
	return j.data[at:j.at], at
}

// value reads one value that nests depth deep, or returns nil after a report.
func (j *jsonReader) value(depth int) *Value {
	token, at := j.next()
	pos := j.pos(at)
	v := &Value{Pos: pos}
	switch c := token[0]; c {
	case '{', '[':
		if j.tooDeep(pos, depth) || !j.grow(pos, 1, 0) {
			return nil
		}
		if c == '[' {
			return j.array(v, depth)
		}
		return j.members(pos, depth)
	case '"':
		v.Kind, v.Text = String, j.text(token, at)
	case 't', 'f':
		v.Kind, v.True = Bool, c == 't'
	case 'n':
	default:
		v.Kind, v.Text = Number, string(token)
	}
	if !j.grow(pos, 1, len(v.Text)) {
		return nil
	}
	return v
}

func (j *jsonReader) array(v *Value, depth int) *Value {
	v.Kind = Array
	for j.skip() != ']' {
		item := j.value(depth + 1)
		if item == nil {
			return nil
		}
		v.Items = append(v.Items, item)
	}
	j.at++
	return v
}

func (j *jsonReader) members(pos Pos, depth int) *Value {
	var members []Member
	for j.skip() != '}' {
		token, at := j.next()
		key, keyPos := j.key(token, at), j.pos(at)
		if !j.grow(keyPos, 0, len(key)) {
			return nil
		}
		v := j.value(depth + 1)
		if v == nil {
			return nil
		}
		members = append(members, Member{Key: key, KeyPos: keyPos, Value: v})
	}
	j.at++
	return j.object(pos, members)
}

// key is the text of a key.
func (j *jsonReader) key(token []byte, at int) string {
	known, ok := j.keys[string(token)]
	if !ok {
		known = j.text(token, at)
		if plain := string(token); known == plain[1:len(plain)-1] { // else each place is reported
			j.keys[plain] = known
		}
	}
	return known
}

// text is what a string token at an offset stands for.
func (j *jsonReader) text(token []byte, at int) string {
	if bytes.IndexByte(token, '\\') < 0 && utf8.Valid(token) {
		return string(token[1 : len(token)-1])
	}
	var text string
	if err := json.Unmarshal(token, &text); err != nil {
		j.fail(j.pos(at), CodeSyntax, "", "%v", err)
	}
	j.checkSurrogates(at, text)
	return text
}

// checkSurrogates reports an escape such as \ud800 that stands for half a character; the
// decoder would replace it and lose what was written.
func (j *jsonReader) checkSurrogates(at int, decoded string) {
	if !strings.ContainsRune(decoded, '\uFFFD') {
		return
	}
	end := j.at
	for i := at; i+1 < end; i++ {
		if j.data[i] != '\\' {
			continue
		}
		if j.data[i+1] != 'u' {
			i++
			continue
		}
		r := escapedUnit(j.data[i:end])
		if utf16.IsSurrogate(r) {
			if utf16.DecodeRune(r, escapedUnit(j.data[min(i+6, end):end])) == '\uFFFD' {
				j.fail(j.pos(i), CodeEncoding, "write the whole character", "the escape %s stands for half a character", j.data[i:min(i+6, end)])
				return
			}
			i += 6
		}
		i += 5
	}
}

// escapedUnit reads \uXXXX at the start of b, or returns -1.
func escapedUnit(b []byte) rune {
	if len(b) < 6 || b[0] != '\\' || b[1] != 'u' {
		return -1
	}
	var r rune
	for _, c := range b[2:6] {
		digit := strings.IndexByte("0123456789abcdef", c|0x20)
		if digit < 0 {
			return -1
		}
		r = r<<4 | rune(digit)
	}
	return r
}

// jsonSyntax reports an error of the standard library at its place, with what is usually
// wrong there.
func (p *parser) jsonSyntax(err error) {
	var syntax *json.SyntaxError
	if !errors.As(err, &syntax) {
		p.fail(Pos{1, 1}, CodeSyntax, "", "%v", err)
		return
	}
	at := max(int(syntax.Offset)-1, 0)
	text := strings.TrimPrefix(syntax.Error(), "json: ")
	if strings.Contains(text, "exceeded max depth") {
		p.tooDeep(p.pos(at), MaxDepth+1)
		return
	}
	if strings.HasPrefix(text, "unexpected end") || at >= len(p.data) {
		at = len(bytes.TrimRight(p.data, " \t\r\n"))
		p.fail(p.pos(at), CodeSyntax, "close every { [ and \"; the text may have been cut off", "the text ends in the middle of a value")
		return
	}
	if strings.HasSuffix(text, "exceeded max depth") {
		p.tooDeep(p.pos(at), MaxDepth+1)
		return
	}
	p.fail(p.pos(at), CodeSyntax, p.jsonHelp(at), "not JSON: %s", text)
}

// jsonHelp guesses the mistake from the bytes around it.
func (p *parser) jsonHelp(at int) string {
	before := bytes.TrimRight(p.data[:at], " \t\r\n")
	previous := byte(0)
	if len(before) > 0 {
		previous = before[len(before)-1]
	}
	switch c := p.data[at]; {
	case strings.IndexByte("}]", c) >= 0 && previous == ',':
		return "remove the comma before it"
	case strings.IndexByte("/#", c) >= 0:
		return "JSON has no comments; remove it, or name the file .json5"
	case c == '\'':
		return "strings and keys stand in double quotes"
	case strings.IndexByte("\n\r\t", c) >= 0:
		return `write line breaks and tabs in strings as \n and \t`
	case c == '"' && strings.IndexByte(`"]}el0123456789`, previous) >= 0:
		return "a comma may be missing before it"
	case strings.IndexByte("{[", c) >= 0:
		return "a comma may be missing before it"
	case strings.IndexByte("NITF", c) >= 0:
		return "JSON has true, false and null in lower case, and no NaN or Infinity"
	case strings.IndexByte("{,", previous) >= 0:
		return "strings and keys stand in double quotes; for YAML name the file .yaml"
	}
	return "check the text before it"
}
