package host

import (
	"context"
	"fmt"
	"time"

	"github.com/urfave/cli/v3"

	"weft/worker/config"
)

// minAge is the minimum age of payloads that a sweep removes: younger ones may be in flight.
const minAge = time.Hour

func (p *program) sweepCommand() *cli.Command {
	var age time.Duration
	return p.command("sweep", "remove old payloads from the store",
		"Removes payloads that have not been stored for that long. Run it once a day.\nA run that still needs a removed payload fails.",
		p.configured(func(ctx context.Context, cfg *config.Config) error { return p.sweep(ctx, cfg, age) }),
		&cli.DurationFlag{Name: "older-than", Usage: "remove payloads of at least this `AGE`, such as 2160h: longer than the longest run plus the namespace's retention",
			Destination: &age, HideDefault: true})
}

// sweep removes old payloads from the store.
func (p *program) sweep(ctx context.Context, cfg *config.Config, age time.Duration) error {
	if age < minAge {
		return config.Problems{fmt.Sprintf("-older-than is %v, want at least %v, and longer than the namespace retains runs", age, minAge)}
	}
	if cfg.Store.Most() == 0 {
		return config.Problems{"no store to sweep; set store.dir (WEFT_STORE_DIR) or store.bucket (WEFT_STORE_BUCKET)"}
	}
	s, err := cfg.OpenStore()
	if err != nil {
		return err
	}
	swept, err := s.Sweep(ctx, age)
	fmt.Fprintf(p.stdout, "%s: removed %d payloads, %d bytes; kept %d payloads, %d bytes\n", s, swept.Removed, swept.Freed, swept.Kept, swept.Held)
	return err
}
