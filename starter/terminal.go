package main

import (
	"io"
	"os"

	"golang.org/x/term"
)

// terminal reports whether a writer is a terminal. The null device is none, though it looks like one.
func terminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}

// onTerminal reports whether standard output is a terminal.
func (a *app) onTerminal() bool {
	w := a.stdout
	if c, ok := w.(*checked); ok {
		w = c.Writer
	}
	return terminal(w)
}

// usualWidth and usualHeight are the size of a terminal that does not tell.
const usualWidth, usualHeight = 80, 24

// sizeOf gives a terminal's size, as it is each time: people resize theirs.
func sizeOf(w io.Writer) func() (width, height int) {
	return func() (width, height int) {
		if f, ok := w.(*os.File); ok {
			width, height, _ = term.GetSize(int(f.Fd()))
		}
		// The size may not be set.
		if width <= 0 || height <= 0 {
			width, height = usualWidth, usualHeight
		}
		return width, height
	}
}
