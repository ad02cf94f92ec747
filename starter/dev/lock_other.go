//go:build !unix

package dev

import (
	"os"
	"os/exec"

	"weft/starter/usage"
)

func lock(string, bool) (*os.File, error) {
	return nil, usage.Errorf("-dev does not work on this system; run weft-devserver in another window instead")
}

func ownSession(*exec.Cmd) {}
