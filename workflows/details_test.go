package workflows

import (
	"strings"
	"testing"

	"weft/activities/contract"
)

func TestDetailsShowSwitchesOfModels(t *testing.T) {
	f := &flowRun{run: &run{}}
	f.usage.Switch("b/y", []contract.Switch{{Model: "a|x\n", Class: contract.ClassRateLimited}})
	f.usage.Switch("b/y", []contract.Switch{{Model: "a|x\n", Class: contract.ClassRateLimited}})
	var b strings.Builder
	f.switches(&b)
	if want := "\n| switched from | to | why | times |\n|---|---|---|---|\n| a\\|x  | b/y | rate_limited | 2 |\n"; b.String() != want {
		t.Errorf("got %q\nwant %q", b.String(), want)
	}
	b.Reset()
	(&flowRun{run: &run{}}).switches(&b)
	if b.Len() > 0 {
		t.Errorf("without any: %q", b.String())
	}
}
