package main

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
)

// Counts, unlike times, are the same on every machine. They are compared with a recorded table, and the bench fails if
// one has grown.

// recordedFile is the table, relative to the folder of the project; BENCH_RECORD=1 rewrites it.
const recordedFile = "tests/bench/counted.json"

//go:embed counted.json
var recordedCounts []byte

// mostGrowth is the allowed growth of a count.
const mostGrowth = 1.1

// counts maps sections and rows to counts.
type counts map[string]float64

// isCounted reports whether a row is nearly the same in every run.
func isCounted(row string) bool {
	return strings.HasPrefix(row, "history bytes") || strings.HasPrefix(row, "history events per step") || strings.Contains(row, "not about workflow tasks") ||
		strings.HasPrefix(row, "allocations")
}

// grown returns the rows that have grown relative to the recorded table.
func (c counts) grown(recorded counts) []string {
	var out []string
	for _, row := range slices.Sorted(maps.Keys(c)) {
		if was := recorded[row]; was > 0 && c[row] > was*mostGrowth {
			out = append(out, fmt.Sprintf("%s: %.2f, recorded are %.2f", row, c[row], was))
		}
	}
	return out
}

// check compares with the recorded table, or rewrites it.
func (c counts) check(record bool) error {
	recorded := counts{}
	if err := json.Unmarshal(recordedCounts, &recorded); err != nil {
		return fmt.Errorf("%s: %w", recordedFile, err)
	}
	if record {
		maps.Copy(recorded, c)
		raw, err := json.MarshalIndent(recorded, "", "  ")
		if err != nil {
			return err
		}
		return os.WriteFile(recordedFile, append(raw, '\n'), 0o644)
	}
	if rows := c.grown(recorded); len(rows) > 0 {
		return fmt.Errorf("more than a tenth over %s:\n  %s\nfind what they are for; BENCH_RECORD=1 records them", recordedFile, strings.Join(rows, "\n  "))
	}
	return nil
}
