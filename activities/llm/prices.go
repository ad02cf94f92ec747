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

// Price is the price of a million tokens, in any currency. The tags are those of worker/config.
type Price struct {
	Input      float64  `mapstructure:"input" doc:"price of a million input tokens, in any currency; NAME is provider/model, or a prefix of it followed by *"`
	Output     float64  `mapstructure:"output" doc:"price of a million output tokens"`
	Cached     *float64 `mapstructure:"cached" doc:"price of a million input tokens read from the provider's cache; default: as input"`
	CacheWrite *float64 `mapstructure:"cache_write" doc:"price of a million input tokens written to that cache; default: as input"`
	Reasoning  *float64 `mapstructure:"reasoning" doc:"price of a million output tokens that are reasoning; default: as output"`
	Image      float64  `mapstructure:"image" doc:"price of each image in a request, beside its tokens"`
}

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
		for _, v := range []*float64{&p.Input, &p.Output, p.Cached, p.CacheWrite, p.Reasoning, &p.Image} {
			if v != nil && (math.IsNaN(*v) || *v < 0 || *v > 1e6) {
				o.problem("prices.%s: %v is not a price; want 0 to 1000000", textutil.Truncate(key, 100), *v)
			}
		}
		model, prefix := strings.CutSuffix(key, "*")
		out = append(out, priceRow{model, prefix, p})
	}
	slices.SortStableFunc(out, func(a, b priceRow) int { return cmp.Compare(len(b.model), len(a.model)) })
	return out
}

// images counts those that a call shows its model.
func (m *Models) images(ref string, call *Call) int {
	n := 0
	if p := m.providers[strings.Split(ref, "/")[0]]; p != nil && p.NoImages {
		return 0
	}
	for i := range call.Messages {
		for k := range call.Messages[i].Media {
			if call.Messages[i].Media[k].Kind() == contract.KindImage {
				n++
			}
		}
	}
	return n
}

// price sets the cost of the usage of a call, in millionths, and counts calls of models without a price. The scripted
// model is free unless it has one.
func (m *Models) price(ref string, call *Call, u *contract.Usage) {
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
	thoughts := min(u.Reasoning, u.Output)
	cost := float64(plain)*p.Input + float64(u.Cached)**cmp.Or(p.Cached, &p.Input) + float64(u.CacheWrite)**cmp.Or(p.CacheWrite, &p.Input) +
		float64(u.Output-thoughts)*p.Output + float64(thoughts)**cmp.Or(p.Reasoning, &p.Output)
	if p.Image > 0 && u.Input > 0 {
		cost += p.Image * 1e6 * float64(m.images(ref, call)*u.Made())
	}
	u.Cost = int64(math.Round(cost))
}
