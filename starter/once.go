package main

import (
	"flag"
	"slices"
	"time"
)

// single is a flag that has one value: another one beside it is a mistake, of which neither
// may win in silence.
type single struct {
	flag.Value
	name  string
	given bool
	// wrong gets what is wrong, in this command's words: the flag package has its own.
	wrong *error
}

// Set takes the first value, and the same one again.
func (s *single) Set(value string) error {
	before := s.String()
	err := s.Value.Set(value)
	switch {
	case err != nil && s.want() != "":
		*s.wrong = bad("-%s is %q, want %s", s.name, cut(value, 100), s.want())
	case err == nil && s.given && s.String() != before:
		err = bad("-%s is given twice, as %q and %q; leave out one of them", s.name, cut(before, 100), cut(s.String(), 100))
		*s.wrong = err
	}
	s.given = true
	return err
}

// want says what a value must be that is more than text; "" for text.
func (s *single) want() string {
	g, ok := s.Value.(flag.Getter)
	if !ok {
		return ""
	}
	switch g.Get().(type) {
	case bool:
		return "true or false"
	case int:
		return "a whole number"
	case float64:
		return "a number"
	case time.Duration:
		return "a time such as 30s, 5m or 2h"
	}
	return ""
}

// IsBoolFlag says that the flag may stand without a value.
func (s *single) IsBoolFlag() bool {
	b, ok := s.Value.(interface{ IsBoolFlag() bool })
	return ok && b.IsBoolFlag()
}

// onlyOnce lets all flags have one value but those that may be repeated. What is wrong with a
// value is in the error that is returned, once the flags have been parsed.
func onlyOnce(fs *flag.FlagSet) *error {
	wrong := new(error)
	fs.VisitAll(func(v *flag.Flag) {
		switch v.Value.(type) {
		case *manyTexts, *budgetFlag:
		default:
			v.Value = &single{Value: v.Value, name: v.Name, wrong: wrong}
		}
	})
	return wrong
}

// naming are the flags whose value names something, so that it cannot be empty.
var naming = []string{"agents", "at", "config", "dialect", "listen", "model", "name", "profile", "script", "status", "task-queue"}

// emptyName is the error of a flag that should name something and does not.
func emptyName(fs *flag.FlagSet) (err error) {
	fs.Visit(func(v *flag.Flag) {
		if err == nil && slices.Contains(naming, v.Name) && v.Value.String() == "" {
			err = bad("-%s is empty; write a value behind it, or leave it out", v.Name)
		}
	})
	return err
}
