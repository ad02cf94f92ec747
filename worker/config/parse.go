package config

import (
	"errors"
	"fmt"
	"math"
	"net"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"weft/activities/textutil"
	"weft/specadapter/source"
)

var durationType = reflect.TypeFor[time.Duration]()

// parse turns a value of the file, of a variable or of a flag into one of the setting's type. A
// string is accepted for a number or a boolean, because that is what a variable has. The error says
// what the setting wants.
func (s *setting) parse(v *source.Value) (out any, err error) {
	text, ok := scalar(v)
	switch s.typ.Kind() {
	case reflect.Slice:
		var list []string
		list, ok = parseList(v)
		if i := slices.IndexFunc(list, func(w string) bool { return len(s.oneOf) > 0 && !slices.Contains(s.oneOf, w) }); i >= 0 {
			return nil, fmt.Errorf("expected a list of %s, got %q", anyOf(s.oneOf), list[i])
		}
		out = list
	case reflect.Map:
		return s.parseMap(v)
	case reflect.Bool:
		out, ok = text == "true", text == "true" || text == "false"
	case reflect.String:
		out, ok = text, ok && s.accepts(v, text)
	default:
		out, ok = s.parseNumber(text)
	}
	if !ok {
		return nil, errors.New("expected " + s.want())
	}
	if d, isDuration := out.(time.Duration); isDuration && s.unit > 0 && d%s.unit != 0 {
		return nil, fmt.Errorf("expected a multiple of %v", s.unit)
	}
	return out, nil
}

func (s *setting) parseNumber(text string) (any, bool) {
	within := func(n int64) bool { return s.min <= n && n <= s.max }
	switch s.typ.Kind() {
	case reflect.Int64:
		d, err := time.ParseDuration(text)
		return d, err == nil && within(int64(d))
	case reflect.Float64:
		n, err := strconv.ParseFloat(text, 64)
		return n, err == nil && n >= 0 && !math.IsInf(n, 0)
	}
	n, err := strconv.ParseInt(text, 10, 64)
	return int(n), err == nil && (within(n) || text == s.or)
}

// accepts reports whether a text is one that the setting wants.
func (s *setting) accepts(v *source.Value, text string) bool {
	switch {
	case s.kind == "connection":
		return v.Kind == source.String
	case s.kind == "address" && text != "":
		_, port, err := net.SplitHostPort(text)
		n, bad := strconv.ParseUint(port, 10, 16)
		return err == nil && bad == nil && n > 0
	}
	return len(s.oneOf) == 0 || slices.Contains(s.oneOf, text)
}

func parseList(v *source.Value) ([]string, bool) {
	if v.Kind == source.String {
		return strings.Fields(v.Text), true
	}
	out := []string{}
	for _, item := range v.Items {
		text, ok := scalar(item)
		if !ok {
			return nil, false
		}
		out = append(out, text)
	}
	return out, v.Kind == source.Array
}

func (s *setting) parseMap(v *source.Value) (any, error) {
	if v.Kind != source.Object {
		return nil, errors.New("expected " + s.want())
	}
	out := map[string]string{}
	for _, m := range v.Members {
		text, ok := scalar(m.Value)
		if !ok {
			return nil, fmt.Errorf("expected a string for %s", source.Quote(m.Key))
		}
		out[m.Key] = text
	}
	return out, nil
}

// scalar is the text of a single value.
func scalar(v *source.Value) (string, bool) {
	switch v.Kind {
	case source.String, source.Number:
		return v.Text, true
	case source.Bool:
		return strconv.FormatBool(v.True), true
	}
	return "", false
}

// fromText is the text of a variable, a flag or a default as a value. Single lists are separated by
// commas there, those below a name of the operator's by blanks.
func (s *setting) fromText(text string) *source.Value {
	if s.typ.Kind() != reflect.Slice || s.named {
		return &source.Value{Kind: source.String, Text: text}
	}
	list := &source.Value{Kind: source.Array}
	for item := range strings.SplitSeq(text, ",") {
		if item = strings.TrimSpace(item); item != "" {
			list.Items = append(list.Items, &source.Value{Kind: source.String, Text: item})
		}
	}
	return list
}

// want describes the values of a setting, for messages and for the reference.
func (s *setting) want() string {
	switch {
	case len(s.oneOf) > 0:
		return anyOf(s.oneOf)
	case s.kind == "url":
		return "a URL"
	case s.kind == "address":
		return "host:port or :port, with a port from 1 to 65535"
	case s.kind == "connection":
		return "the id of a connection"
	}
	switch s.typ.Kind() {
	case reflect.Int64:
		return fmt.Sprintf("a duration from %s to %s, such as 90s or 10m", textutil.Duration(time.Duration(s.min)), textutil.Duration(time.Duration(s.max)))
	case reflect.Int:
		want := fmt.Sprintf("a whole number from %d to %d", s.min, s.max)
		if s.or != "" {
			want = s.or + ", or " + want
		}
		return want
	case reflect.Bool:
		return "true or false"
	case reflect.Float64:
		return "a number like 1.25, 0 or more"
	case reflect.Slice:
		return "a list of strings"
	case reflect.Map:
		return "a map of strings, in the file"
	}
	return "a string"
}

func anyOf(words []string) string {
	last := len(words) - 1
	if last == 0 {
		return words[0]
	}
	return strings.Join(words[:last], ", ") + " or " + words[last]
}
