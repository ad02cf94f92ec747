package main

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/urfave/cli/v3"
)

// Each function declares a flag of one kind. The usage names the value's placeholder between
// backquotes. A flag can be given once, except a list.

func textFlag(name string, p *string, usage string) cli.Flag {
	return &cli.StringFlag{Name: name, Usage: usage, Destination: p, OnlyOnce: true}
}

func nameFlag(name string, p *string, usage string) cli.Flag {
	return &cli.StringFlag{Name: name, Usage: usage, Destination: p, OnlyOnce: true, Validator: refuseEmpty}
}

func fileFlag(name string, p *string, usage string) cli.Flag {
	return &cli.StringFlag{Name: name, Usage: usage, Destination: p, OnlyOnce: true, TakesFile: true, Validator: refuseEmpty}
}

// choiceFlag is one of values; the first is the default unless it is "".
func choiceFlag(name string, p *string, values []string, usage string) cli.Flag {
	return &cli.StringFlag{Name: name, Usage: usage, Destination: p, OnlyOnce: true, Validator: func(v string) error {
		if !slices.Contains(values, v) {
			return fmt.Errorf("want one of %s", strings.Join(values, ", "))
		}
		return nil
	}}
}

// listFlag can be given several times; a comma in a value separates nothing.
func listFlag(name string, p *[]string, usage string) cli.Flag {
	return &cli.StringSliceFlag{Name: name, Usage: usage + "; can be repeated", Destination: p}
}

func boolFlag(name string, p *bool, usage string) cli.Flag {
	return &cli.BoolFlag{Name: name, Usage: usage, Destination: p, OnlyOnce: true, HideDefault: true}
}

// intFlag is a whole number from least to most; most 0 is no bound.
func intFlag(name string, p *int, value, least, most int, usage string) cli.Flag {
	return &cli.IntFlag{Name: name, Usage: usage, Value: value, Destination: p, OnlyOnce: true, HideDefault: value == 0, Validator: func(v int) error {
		switch {
		case most > 0 && (v < least || v > most):
			return fmt.Errorf("want %d to %d", least, most)
		case v < least:
			return fmt.Errorf("want %d or more", least)
		}
		return nil
	}}
}

func durationFlag(name string, p *time.Duration, least time.Duration, usage string) cli.Flag {
	return &cli.DurationFlag{Name: name, Usage: usage, Destination: p, OnlyOnce: true, HideDefault: true, Validator: func(v time.Duration) error {
		if v < least {
			return fmt.Errorf("want at least %v", least)
		}
		return nil
	}}
}

func refuseEmpty(v string) error {
	if v == "" {
		return errors.New("want a value")
	}
	return nil
}
