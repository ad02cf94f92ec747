//go:build !unix

package main

import (
	"os"
	"os/exec"
)

func lock(string, bool) (*os.File, error) {
	return nil, bad("-dev does not work on this system; run weft-devserver in another window instead")
}

func aside(*exec.Cmd) {}
