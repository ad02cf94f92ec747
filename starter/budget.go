package main

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"weft/activities/contract"
)

// micros are in one unit of a currency.
const micros = 1_000_000

// budgetFlag collects -budget KIND=N.
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
