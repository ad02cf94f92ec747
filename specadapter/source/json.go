package source

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"
)

// json reads JSON, which the standard library validates and the scanner gives positions and order.
func (p *parser) json() *Value {
	if !json.Valid(p.data) {
		var whole json.RawMessage
		p.jsonSyntax(json.Unmarshal(p.data, &whole))
		return nil
	}
	return scan(strict)(p)
}

// jsonSyntax reports an error of the standard library at its place, with a likely cause.
func (p *parser) jsonSyntax(err error) {
	var syntax *json.SyntaxError
	if !errors.As(err, &syntax) {
		p.fail(p.pos(0), CodeSyntax, "", "%v", err)
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
		p.fail(p.pos(at), CodeSyntax, "close every { [ and \"; the text may be truncated", "unexpected end of text")
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
		return "JSON has no comments; remove it or rename the file to .json5"
	case c == '\'':
		return "use double quotes around strings and keys"
	case strings.IndexByte("\n\r\t", c) >= 0:
		return `use \n and \t for line breaks and tabs in strings`
	case c == '"' && strings.IndexByte(`"]}el0123456789`, previous) >= 0:
		return "a comma may be missing before it"
	case strings.IndexByte("{[", c) >= 0:
		return "a comma may be missing before it"
	case strings.IndexByte("NITF", c) >= 0:
		return "JSON has true, false and null in lower case, and no NaN or Infinity"
	case strings.IndexByte("{,", previous) >= 0:
		return "use double quotes around strings and keys; for YAML rename the file to .yaml"
	}
	return "check the text before it"
}
