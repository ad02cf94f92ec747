package main

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/urfave/cli/v3"
	"go.temporal.io/sdk/temporal"

	"weft/activities/contract"
	"weft/starter/plaintext"
	"weft/starter/runs"
	"weft/starter/usage"
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

const micros = 1_000_000

type budgetFlag contract.Budget

// String is empty: there is no default to show.
func (b *budgetFlag) String() string { return "" }

// Get returns the flag's value.
func (b *budgetFlag) Get() any { return *b }

// Set reads one bound.
func (b *budgetFlag) Set(s string) error {
	kind, text, _ := strings.Cut(s, "=")
	switch kind {
	case "calls", "tokens":
		n, err := strconv.Atoi(text)
		if err != nil || n < 1 {
			return fmt.Errorf("%s needs a whole number from 1, such as %s=100", kind, kind)
		}
		if kind == "calls" {
			b.Calls = n
		} else {
			b.Tokens = n
		}
		return nil
	case "cost":
		v, err := strconv.ParseFloat(text, 64)
		if err != nil || !(v >= 1.0/micros) || v > 1e9 {
			return fmt.Errorf("cost needs an amount in the currency of the worker's prices, such as cost=0.50")
		}
		b.Cost = int64(math.Round(v * micros))
		return nil
	}
	return fmt.Errorf("want calls=N, tokens=N or cost=AMOUNT")
}

// budget is what was given, nil for nothing.
func (b *budgetFlag) budget() *contract.Budget {
	out := contract.Budget(*b)
	if !out.Bounds() {
		return nil
	}
	return &out
}

// Bounds of Temporal's priorities.
const (
	lowestPriority    = 5
	minFairnessWeight = 0.001
	maxFairnessWeight = 1000
)

type priorityFlags struct {
	priority       int
	fairnessKey    string
	fairnessWeight float64
}

func (f *priorityFlags) declare() []cli.Flag {
	return []cli.Flag{
		intFlag("priority", &f.priority, 0, 1, lowestPriority, "priority of the run's tasks, `1..5`: 1 runs first (default: 3)"),
		&cli.StringFlag{Name: "fairness-key", Usage: "fairness `KEY` of the run's tasks: keys share workers evenly", Destination: &f.fairnessKey, OnlyOnce: true, Validator: checkFairnessKey},
		&cli.FloatFlag{Name: "fairness-weight", Usage: "`WEIGHT` of the fairness key, from 0.001 to 1000 (default: 1)", Destination: &f.fairnessWeight, OnlyOnce: true, HideDefault: true, Validator: checkFairnessWeight},
	}
}

func checkFairnessKey(key string) error {
	if key == "" || len(key) > runs.MaxFairnessKey || strings.ContainsFunc(key, plaintext.Unprintable) {
		return fmt.Errorf("want printable ASCII, from 1 to %d bytes", runs.MaxFairnessKey)
	}
	return nil
}

func checkFairnessWeight(weight float64) error {
	if !(weight >= minFairnessWeight) || weight > maxFairnessWeight {
		return fmt.Errorf("want %v to %v", minFairnessWeight, maxFairnessWeight)
	}
	return nil
}

func (f *priorityFlags) checkPair() error {
	if f.fairnessWeight != 0 && f.fairnessKey == "" {
		return usage.Errorf("-fairness-weight needs -fairness-key")
	}
	return nil
}

func (f *priorityFlags) temporalPriority() temporal.Priority {
	return temporal.Priority{PriorityKey: f.priority, FairnessKey: f.fairnessKey, FairnessWeight: float32(f.fairnessWeight)}
}

// inheritedPriority returns the priority of a fork: what the flags do not set is inherited; the weight belongs to the key.
func (f *priorityFlags) inheritedPriority(old temporal.Priority) temporal.Priority {
	out := old
	if f.priority != 0 {
		out.PriorityKey = f.priority
	}
	if f.fairnessKey != "" {
		out.FairnessKey, out.FairnessWeight = f.fairnessKey, float32(f.fairnessWeight)
	}
	return out
}
