package config

import (
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"time"

	"weft/specadapter/source"
)

// Makers of the column take of [settings]: each reads the layered value of a key, checks
// it and puts it, or the default, where it belongs.

func text(at func(*Config) *string, def string) value {
	return value{want: "text", def: def, show: func(c *Config) string { return *at(c) }, take: func(l *loader, key string) {
		*at(l.cfg) = def
		if s, ok := l.text(key); ok {
			*at(l.cfg) = s
		}
	}}
}

// choice is one of some words; the first is the default.
func choice(at func(*Config) *string, words ...string) value {
	v := text(at, words[0])
	v.want = anyOf(words)
	take := v.take
	v.take = func(l *loader, key string) {
		take(l, key)
		if s := *at(l.cfg); !slices.Contains(words, s) {
			l.check(key, s, fmt.Errorf("want %s", v.want))
		}
	}
	return v
}

// anyOf lists words: "a, b or c".
func anyOf(words []string) string {
	last := len(words) - 1
	return strings.Join(words[:last], ", ") + " or " + words[last]
}

// address is where a server of this process listens, as host:port or :port.
func address(at func(*Config) *string) value {
	v := text(at, "")
	v.want = "host:port"
	take := v.take
	v.take = func(l *loader, key string) {
		take(l, key)
		s := *at(l.cfg)
		if s == "" {
			return
		}
		_, port, err := net.SplitHostPort(s)
		if n, bad := strconv.ParseUint(port, 10, 16); err != nil || bad != nil || n == 0 {
			l.check(key, s, errors.New("want host:port or :port, with a port from 1 to 65535"))
		}
	}
	return v
}

func boolean(at func(*Config) *bool) value {
	return value{want: "true or false", def: "false", show: func(c *Config) string { return fmt.Sprint(*at(c)) }, take: func(l *loader, key string) {
		if s, ok := l.text(key); ok {
			b, err := parseBool(s)
			l.check(key, s, err)
			*at(l.cfg) = b
		}
	}}
}

func number(at func(*Config) *int, def, least, most int) value {
	return value{want: fmt.Sprintf("%d to %d", least, most), def: fmt.Sprint(def), show: func(c *Config) string { return fmt.Sprint(*at(c)) }, take: func(l *loader, key string) {
		*at(l.cfg) = def
		if s, ok := l.text(key); ok {
			n, err := parseInt(s, least, most)
			l.check(key, s, err)
			*at(l.cfg) = n
		}
	}}
}

// wantList is what a list wants.
const wantList = "list"

// list reads a list, in the environment separated by commas.
func list(at func(*Config) *[]string) value {
	return value{want: wantList, show: func(c *Config) string { return strings.Join(*at(c), ",") }, take: func(l *loader, key string) {
		switch v := l.values.Get(key).(type) {
		case []string:
			*at(l.cfg) = v
		case string:
			for _, s := range strings.Split(v, ",") {
				if s = strings.TrimSpace(s); s != "" {
					*at(l.cfg) = append(*at(l.cfg), s)
				}
			}
		}
	}}
}

func span(at func(*Config) *time.Duration, def, least time.Duration) value {
	return value{want: spanWant(least), def: clock(def), show: func(c *Config) string { return clock(*at(c)) }, take: func(l *loader, key string) {
		*at(l.cfg) = def
		if s, ok := l.text(key); ok {
			d, err := parseSpan(s, least)
			l.check(key, s, err)
			*at(l.cfg) = d
		}
	}}
}

func seconds(at func(*Config) *int, def int) value {
	return units(at, def, time.Second)
}

// units reads a duration into a whole number of units.
func units(at func(*Config) *int, def int, unit time.Duration) value {
	show := func(n int) string { return clock(time.Duration(n) * unit) }
	return value{want: spanWant(unit), def: show(def), show: func(c *Config) string { return show(*at(c)) }, take: func(l *loader, key string) {
		*at(l.cfg) = def
		if s, ok := l.text(key); ok {
			d, err := parseSpan(s, unit)
			if err == nil && d%unit != 0 {
				err = fmt.Errorf("want a multiple of %v", unit)
			}
			l.check(key, s, err)
			*at(l.cfg) = int(d / unit)
		}
	}}
}

func spanWant(least time.Duration) string {
	return fmt.Sprintf("duration, %s to %s", clock(least), clock(maxSpan))
}

// clock is a duration as an author writes it: 10m, not 10m0s.
func clock(d time.Duration) string {
	s := d.String()
	if strings.HasSuffix(s, "m0s") {
		s = strings.TrimSuffix(s, "0s")
	}
	if strings.HasSuffix(s, "h0m") {
		s = strings.TrimSuffix(s, "0m")
	}
	return s
}

// text is the layered value of a key.
func (l *loader) text(key string) (string, bool) {
	s, ok := l.values.Get(key).(string)
	return s, ok
}

func (l *loader) check(key, value string, err error) {
	if err != nil {
		l.problem("%s: %s is %s, %v", l.origin[key], key, source.Quote(value), err)
	}
}

func parseBool(s string) (bool, error) {
	switch s {
	case "true":
		return true, nil
	case "false":
		return false, nil
	}
	return false, fmt.Errorf("want true or false")
}

func parseInt(s string, least, most int) (int, error) {
	n, err := strconv.Atoi(s)
	if err != nil || n < least || n > most {
		return 0, fmt.Errorf("want a whole number from %d to %d", least, most)
	}
	return n, nil
}

// maxSpan bounds every duration.
const maxSpan = 24 * time.Hour

func parseSpan(s string, least time.Duration) (time.Duration, error) {
	d, err := time.ParseDuration(s)
	if err != nil || d < least || d > maxSpan {
		return 0, fmt.Errorf("want a duration from %v to %v, such as 90s or 10m", least, maxSpan)
	}
	return d, nil
}
