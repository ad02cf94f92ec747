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

	"weft/specadapter/source"
)

var durationType = reflect.TypeFor[time.Duration]()

// parse turns a value of the file, of a variable or of a flag into one of the setting's type. A
// string is accepted for a number or a boolean, because that is what a variable has. The error says
// what the setting wants.
func (s *setting) parse(v *source.Value) (any, error) {
	text, ok := scalar(v)
	switch s.typ.Kind() {
	case reflect.Slice:
		return parseList(v)
	case reflect.Map:
		return parseMap(v)
	case reflect.Bool:
		if text != "true" && text != "false" {
			return nil, errors.New("want true or false")
		}
		return text == "true", nil
	case reflect.Int64:
		return s.parseDuration(text)
	case reflect.Int:
		return s.parseInt(text)
	case reflect.Float64:
		return parseFloat(text)
	}
	if err := s.checkText(v, text, ok); err != nil {
		return nil, err
	}
	return text, nil
}

// checkText checks a string; ok reports whether the value is a single one.
func (s *setting) checkText(v *source.Value, text string, ok bool) error {
	switch {
	case s.kind == "connection" && v.Kind != source.String:
		return errors.New("want the id of a connection")
	case !ok:
		return errors.New("want a string")
	case s.kind == "address" && text != "":
		_, port, err := net.SplitHostPort(text)
		if n, bad := strconv.ParseUint(port, 10, 16); err != nil || bad != nil || n == 0 {
			return errors.New("want host:port or :port, with a port from 1 to 65535")
		}
	case len(s.oneOf) > 0 && !slices.Contains(s.oneOf, text):
		return errors.New("want " + anyOf(s.oneOf))
	}
	return nil
}

func parseFloat(text string) (any, error) {
	n, err := strconv.ParseFloat(text, 64)
	if err != nil || math.IsNaN(n) || math.IsInf(n, 0) || n < 0 {
		return nil, errors.New("want a number like 1.25, 0 or more")
	}
	return n, nil
}

func (s *setting) parseInt(text string) (any, error) {
	n, err := strconv.ParseInt(text, 10, 64)
	switch {
	case s.or != "" && text == s.or:
		return int(n), nil
	case (err != nil || n < s.min || n > s.max) && s.or != "":
		return nil, fmt.Errorf("want %s, or a whole number from %d to %d", s.or, s.min, s.max)
	case err != nil || n < s.min || n > s.max:
		return nil, fmt.Errorf("want a whole number from %d to %d", s.min, s.max)
	}
	return int(n), nil
}

func (s *setting) parseDuration(text string) (any, error) {
	d, err := time.ParseDuration(text)
	if err != nil || int64(d) < s.min || int64(d) > s.max {
		return nil, fmt.Errorf("want a duration from %s to %s, such as 90s or 10m", short(time.Duration(s.min)), short(time.Duration(s.max)))
	}
	if s.unit > 0 && d%s.unit != 0 {
		return nil, fmt.Errorf("want a multiple of %v", s.unit)
	}
	return d, nil
}

func parseList(v *source.Value) (any, error) {
	if v.Kind == source.String {
		return strings.Fields(v.Text), nil
	}
	out := []string{}
	for _, item := range v.Items {
		text, ok := scalar(item)
		if !ok {
			return nil, errors.New("want a list of strings")
		}
		out = append(out, text)
	}
	if v.Kind != source.Array {
		return nil, errors.New("want a list of strings")
	}
	return out, nil
}

func parseMap(v *source.Value) (any, error) {
	if v.Kind != source.Object {
		return nil, errors.New("want a map of strings, in the file")
	}
	out := map[string]string{}
	for _, m := range v.Members {
		text, ok := scalar(m.Value)
		if !ok {
			return nil, fmt.Errorf("want a string for %s", source.Quote(m.Key))
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

// want describes the values of a setting, for the reference.
func (s *setting) want() string {
	switch {
	case len(s.oneOf) > 0:
		return anyOf(s.oneOf)
	case s.kind == "url":
		return "URL"
	case s.kind == "address":
		return "host:port"
	case s.kind == "connection":
		return "id of a connection"
	case s.or != "":
		return fmt.Sprintf("%s, or %d to %d", s.or, s.min, s.max)
	}
	switch s.typ.Kind() {
	case reflect.Int64:
		return fmt.Sprintf("duration, %s to %s", short(time.Duration(s.min)), short(time.Duration(s.max)))
	case reflect.Int:
		return fmt.Sprintf("%d to %d", s.min, s.max)
	case reflect.Bool:
		return "true or false"
	case reflect.Float64:
		return "decimal"
	case reflect.Slice:
		return "list of strings"
	case reflect.Map:
		return "map of strings"
	}
	return "string"
}

// anyOf lists words: "a, b or c".
func anyOf(words []string) string {
	last := len(words) - 1
	if last == 0 {
		return words[0]
	}
	return strings.Join(words[:last], ", ") + " or " + words[last]
}

// short is a duration as an operator writes it: 10m, not 10m0s.
func short(d time.Duration) string {
	s := d.String()
	if strings.HasSuffix(s, "m0s") {
		s = strings.TrimSuffix(s, "0s")
	}
	if strings.HasSuffix(s, "h0m") {
		s = strings.TrimSuffix(s, "0m")
	}
	return s
}
