package host

import (
	"fmt"
	"os"

	"weft/worker/config"
)

// checkFlows checks the settings of flows.
func checkFlows(f config.Flows) error {
	if f.Dir == "" {
		if f.Accept == config.AcceptNamed {
			return config.Problems{"flows.accept is named, but flows.dir is not set; set it"}
		}
		return nil
	}
	info, err := os.Stat(f.Dir)
	if err != nil {
		return config.Problems{fmt.Sprintf("flows.dir: %v; name the directory of the flows, or leave it out", err)}
	}
	if !info.IsDir() {
		return config.Problems{fmt.Sprintf("flows.dir: %s is not a directory", f.Dir)}
	}
	return nil
}
