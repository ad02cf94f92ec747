package host

import (
	"fmt"
	"os"

	"weft/worker/config"
)

// checkFlows says what is wrong with the settings of flows.
func checkFlows(f config.Flows) error {
	if f.Dir == "" {
		if f.Accept == config.AcceptNamed {
			return config.Problems{"flows.accept is named, but there is no flows.dir that has the flows; set it"}
		}
		return nil
	}
	info, err := os.Stat(f.Dir)
	if err != nil {
		return config.Problems{fmt.Sprintf("flows.dir: %v; name the folder that holds the flows, or leave it out", err)}
	}
	if !info.IsDir() {
		return config.Problems{fmt.Sprintf("flows.dir: %s is no folder", f.Dir)}
	}
	return nil
}
