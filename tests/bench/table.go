package main

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"
)

// spread summarizes a list of measurements.
type spread struct{ min, median, max float64 }

// spreadOf sorts a copy. It returns zeros for an empty list.
func spreadOf(values []float64) spread {
	if len(values) == 0 {
		return spread{}
	}
	v := slices.Sorted(slices.Values(values))
	m := v[len(v)/2]
	if len(v)%2 == 0 {
		m = (v[len(v)/2-1] + m) / 2
	}
	return spread{min: v[0], median: m, max: v[len(v)-1]}
}

// quantile returns the value below which the share q of the values lies, or 0 if there are none.
func quantile(values []float64, q float64) float64 {
	if len(values) == 0 {
		return 0
	}
	v := slices.Sorted(slices.Values(values))
	return v[min(len(v)-1, int(q*float64(len(v))))]
}

// ratios divides round by round. It omits rounds in which the twin's value is too small to
// measure.
func ratios(ours, twin []float64) []float64 {
	var out []float64
	for i := range min(len(ours), len(twin)) {
		if twin[i] > 0 {
			out = append(out, ours[i]/twin[i])
		}
	}
	return out
}

// table prints measurements.
type table struct {
	out io.Writer
	// section is the heading of the current section, without what is in parentheses.
	section string
	// counts are the counts so far.
	counts counts
}

// count records a value for the comparison with the recorded table.
func (t *table) count(row string, v float64) {
	t.counts[t.section+" · "+strings.TrimSpace(row)] = v
}

const rowFormat = "  %-38s %12s %12s   %-22s %s\n"

// head starts a section.
func (t *table) head(format string, args ...any) {
	t.columns("ours", "twin", format, args...)
}

// columns starts a section whose two sides are not ours and the twin's.
func (t *table) columns(one, other, format string, args ...any) {
	t.plainHead(format, args...)
	fmt.Fprintf(t.out, rowFormat, "", one, other, one+"/"+other, "target")
}

// plainHead starts a section without a twin.
func (t *table) plainHead(format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	t.section, _, _ = strings.Cut(text, " (")
	fmt.Fprintf(t.out, "\n%s\n", text)
}

// row prints one measurement of both sides. A limit above 0 is the maximum median
// ratio.
func (t *table) row(name string, ours, twin []float64, show func(float64) string, limit float64) {
	if isCounted(strings.TrimSpace(name)) {
		t.count(name, spreadOf(ours).median)
	}
	r := ratios(ours, twin)
	s := spreadOf(r)
	ratio, target := "-", ""
	if len(r) > 0 {
		ratio = fmt.Sprintf("%.2f / %.2f / %.2f", s.min, s.median, s.max)
		if limit > 0 {
			target = fmt.Sprintf("<= %.2f %s", limit, verdict(s.median, limit))
		}
	}
	line := fmt.Sprintf(rowFormat, name, show(spreadOf(ours).median), show(spreadOf(twin).median), ratio, target)
	fmt.Fprintln(t.out, strings.TrimRight(line, " \n"))
}

// note prints a line of free text.
func (t *table) note(format string, args ...any) {
	fmt.Fprintf(t.out, "  %s\n", fmt.Sprintf(format, args...))
}

// verdict returns whether a measurement is within a limit, as text.
func verdict[T cmp.Ordered](got, limit T) string {
	if got <= limit {
		return "ok"
	}
	return "OVER"
}

// nanos formats nanoseconds.
func nanos(v float64) string {
	switch {
	case v >= float64(time.Second):
		return fmt.Sprintf("%.2f s", v/float64(time.Second))
	case v >= float64(time.Millisecond):
		return fmt.Sprintf("%.2f ms", v/float64(time.Millisecond))
	case v == 0:
		return "-"
	}
	return fmt.Sprintf("%.1f µs", v/float64(time.Microsecond))
}

func count(v float64) string { return fmt.Sprintf("%.2f", v) }

func whole(v float64) string { return fmt.Sprintf("%.0f", v) }

// bytes formats a size in units of 1,024.
func bytes(v float64) string {
	switch {
	case v >= 1<<20:
		return fmt.Sprintf("%.2f MiB", v/(1<<20))
	case v >= 1<<10:
		return fmt.Sprintf("%.1f KiB", v/(1<<10))
	}
	return fmt.Sprintf("%.0f B", v)
}
