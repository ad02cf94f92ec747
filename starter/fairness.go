package main

import (
	"fmt"
	"strings"

	"weft/starter/plaintext"
	"weft/starter/runs"
	"weft/starter/usage"

	"github.com/urfave/cli/v3"
	"go.temporal.io/sdk/temporal"
)

// Bounds of Temporal's priorities.
const (
	lowestPriority    = 5
	minFairnessWeight = 0.001
	maxFairnessWeight = 1000
)

// priorityFlags are the run's Temporal priority, which all that it starts inherits.
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
