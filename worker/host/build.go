package host

import (
	"crypto/sha256"
	"encoding/hex"
	"io"
	"os"
	"sync"

	"go.temporal.io/sdk/worker"
)

// NameBuild sets a short binary checksum for the histories of runs: eight digits of the program's hash.
// Every event of a worker repeats it, and the SDK's own is four times as long.
func NameBuild() { worker.SetBinaryChecksum(checksum()) }

var checksum = sync.OnceValue(func() string {
	const unknown = "weft"
	path, err := os.Executable()
	if err != nil {
		return unknown
	}
	f, err := os.Open(path)
	if err != nil {
		return unknown
	}
	defer f.Close()
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		return unknown
	}
	return hex.EncodeToString(h.Sum(nil))[:8]
})
