package host

import (
	"context"
	"flag"
	"fmt"
	"io"
	"time"

	"weft/worker/config"
)

// minAge is the least age of what a sweep removes: what is younger may be under way.
const minAge = time.Hour

// sweep removes what has been in the store for too long. args are those behind "store".
func sweep(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	var o config.Options
	if len(args) == 0 || args[0] != "sweep" {
		return config.Problems{"worker store wants sweep; see worker store sweep -h"}
	}
	fs := flag.NewFlagSet("worker store sweep", flag.ContinueOnError)
	fs.StringVar(&o.File, "config", "", "settings `file` (default: WEFT_CONFIG, else weft.yaml if there is one)")
	age := fs.Duration("older-than", 0, "age from which a payload goes, such as 2160h; longer than the longest run takes and the\nnamespace then keeps it (temporal operator namespace describe)")
	fs.Usage = func() {
		fmt.Fprintln(stderr, "usage: worker store sweep -older-than AGE [-config FILE]\n\n"+
			"Removes payloads from the store that nobody has stored for that long. Run it beside the\n"+
			"workers, once a day. A run that still needs what is removed fails.\n\nFlags:")
		fs.PrintDefaults()
	}
	if err := readFlags(fs, args[1:], stderr); err != nil {
		return err
	}
	switch {
	case fs.NArg() > 0:
		return config.Problems{fmt.Sprintf("%q is no flag; worker store sweep takes no other argument", fs.Arg(0))}
	case *age < minAge:
		return config.Problems{fmt.Sprintf("-older-than is %v, want at least %v, and longer than the namespace keeps runs", *age, minAge)}
	}
	cfg, err := config.Load(o)
	if err != nil {
		return err
	}
	if cfg.Store.Most() == 0 {
		return config.Problems{"there is no store to sweep; set store.dir (WEFT_STORE_DIR) or store.bucket (WEFT_STORE_BUCKET)"}
	}
	s, err := cfg.OpenStore()
	if err != nil {
		return err
	}
	swept, err := s.Sweep(ctx, *age)
	fmt.Fprintf(stdout, "%s: removed %d payloads, %d bytes; %d payloads, %d bytes are left\n", s, swept.Removed, swept.Freed, swept.Kept, swept.Held)
	return err
}
