package input

import (
	"os"
	"path/filepath"

	"weft/activities/contract"
	"weft/specadapter"
	"weft/starter/plaintext"
	"weft/starter/usage"
	"weft/worker/config"
	"weft/worker/flows"
)

// Named finds a flow of the folder of flows by its name or its path: the file to read, and the name under which workers
// that run named flows alone have it.
func Named(f config.Flows, flow string) (file, name string, err error) {
	if f.Dir == "" {
		return "", "", usage.Errorf("flows.accept is named, but flows.dir is not set; set it to the folder of the workers' flows, or to a copy of it")
	}
	name = flow
	given, err := os.Stat(flow)
	byPath := err == nil
	if byPath {
		whole, err := filepath.Abs(flow)
		if err != nil {
			return "", "", usage.Errorf("read the flow: %v", err)
		}
		if given.IsDir() {
			whole = filepath.Join(whole, specadapter.FolderMain)
		}
		if name = filepath.Base(whole); name == specadapter.FolderMain {
			name = filepath.Base(filepath.Dir(whole))
		}
		if given, err = os.Stat(whole); err != nil {
			return "", "", usage.Errorf("read the flow: %v", Cause(err))
		}
	}
	folder, err := flows.Named(f, name)
	if err != nil && !byPath {
		fail := contract.FailureOf(err)
		return "", "", usage.Errorf("%s (flows.accept: named, flows.dir: %s)%s", fail.Text, f.Dir, plaintext.If(fail.Remedy != "", "; %s", fail.Remedy))
	}
	if err == nil {
		file = filepath.Join(f.Dir, filepath.FromSlash(folder.Name))
	}
	if own, _ := os.Stat(file); byPath && (own == nil || !os.SameFile(given, own)) {
		return "", "", usage.Errorf("%s is not a flow of flows.dir (%s), and workers with flows.accept: named only run those; add it there and on the workers, or use -flow NAME; to send documents set flows.accept: any, also on the workers", flow, f.Dir)
	}
	return file, name, nil
}
