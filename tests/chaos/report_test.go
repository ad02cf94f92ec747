package chaos

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"
)

// chaosReport is a table of outcomes by flow and fault.
type chaosReport struct {
	mu   sync.Mutex
	rows map[[2]string]*chaosRow
	runs int
}

type chaosRow struct {
	runs, kills, repeats, equal, unknown, wrong int
	slowest                                     time.Duration
}

func newChaosReport() *chaosReport { return &chaosReport{rows: map[[2]string]*chaosRow{}} }

func (r *chaosReport) add(f *chaosFlow, kind string, p *flowRun, problems []string) (runs int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	key := [2]string{f.name, kind}
	row := r.rows[key]
	if row == nil {
		row = &chaosRow{}
		r.rows[key] = row
	}
	row.runs++
	if p.recovery > 0 {
		row.kills++
	}
	row.repeats += p.repeated()
	row.slowest = max(row.slowest, p.recovery)
	switch {
	case len(problems) > 0:
		row.wrong++
	case p.unknown(f):
		row.unknown++
	default:
		row.equal++
	}
	r.runs++
	return r.runs
}

// String renders the table.
func (r *chaosReport) String() string {
	faults := []string{atRequest, afterAnswer, atEvent, atServer}
	names := map[string]string{atRequest: "worker, during a call", afterAnswer: "worker, after a call",
		atEvent: "worker, at an event", atServer: "server"}
	var b strings.Builder
	fmt.Fprintf(&b, "%-32s  %-27s %5s %5s %8s %5s %7s %5s %9s\n", "flow", "killed", "runs", "kills", "repeated", "equal", "unknown", "bad", "slowest")
	var all chaosRow
	line := func(flow, fault string, row *chaosRow) {
		fmt.Fprintf(&b, "%-32s  %-27s %5d %5d %8d %5d %7d %5d %7.1f s\n", flow, fault,
			row.runs, row.kills, row.repeats, row.equal, row.unknown, row.wrong, row.slowest.Seconds())
	}
	keys := make([][2]string, 0, len(r.rows))
	for k, row := range r.rows {
		keys = append(keys, k)
		all.runs, all.kills, all.repeats = all.runs+row.runs, all.kills+row.kills, all.repeats+row.repeats
		all.equal, all.unknown, all.wrong = all.equal+row.equal, all.unknown+row.unknown, all.wrong+row.wrong
		all.slowest = max(all.slowest, row.slowest)
	}
	slices.SortFunc(keys, func(p, q [2]string) int {
		return cmp.Or(cmp.Compare(p[0], q[0]), cmp.Compare(slices.Index(faults, p[1]), slices.Index(faults, q[1])))
	})
	for _, k := range keys {
		line(k[0], names[k[1]], r.rows[k])
	}
	line("all", "", &all)
	return b.String()
}
