package llm

import (
	"cmp"
	"maps"
	"math"
	"slices"
	"strings"

	"weft/activities/contract"
	"weft/activities/textutil"
)

// Price is the price of a million tokens, in any currency. Cached and CacheWrite are of input that is read
// from or written to the provider's cache; nil means Input's price.
type Price struct {
	Input, Output      float64
	Cached, CacheWrite *float64
}

// priceRow is a row of the price table.
type priceRow struct {
	model  string
	prefix bool
	Price
}

// pricesOf checks the price table and orders it, the longest key first.
func (o *opener) pricesOf(in map[string]Price) []priceRow {
	var out []priceRow
	for _, key := range slices.Sorted(maps.Keys(in)) {
		p := in[key]
		if !strings.Contains(key, "/") {
			o.problem("prices.%s: the key is not provider/model; want for example openai/gpt-5*", textutil.Truncate(key, 100))
		}
		for _, v := range []*float64{&p.Input, &p.Output, p.Cached, p.CacheWrite} {
			if v != nil && (math.IsNaN(*v) || *v < 0 || *v > 1e6) {
				o.problem("prices.%s: %v is not a price of a million tokens; want 0 to 1000000", textutil.Truncate(key, 100), *v)
			}
		}
		model, prefix := strings.CutSuffix(key, "*")
		out = append(out, priceRow{model, prefix, p})
	}
	slices.SortStableFunc(out, func(a, b priceRow) int { return cmp.Compare(len(b.model), len(a.model)) })
	return out
}

// price sets the cost of a usage, in millionths, and counts calls of models without a price. The scripted
// model is free unless it has one.
func (m *Models) price(ref string, u *contract.Usage) {
	if len(m.prices) == 0 {
		return
	}
	i := slices.IndexFunc(m.prices, func(r priceRow) bool {
		return r.model == ref || r.prefix && strings.HasPrefix(ref, r.model)
	})
	if i < 0 {
		if !m.script(ref) {
			u.Unpriced = u.Calls
		}
		return
	}
	p := m.prices[i]
	plain := max(0, u.Input-u.Cached-u.CacheWrite)
	cost := float64(plain)*p.Input + float64(u.Cached)**cmp.Or(p.Cached, &p.Input) + float64(u.CacheWrite)**cmp.Or(p.CacheWrite, &p.Input) + float64(u.Output)*p.Output
	u.Cost = int64(math.Round(cost))
}
