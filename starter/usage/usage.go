// Package usage defines the error type for invalid input: a flag, a file, a document or an id.
package usage

import "fmt"

// Error describes invalid input, its position, and the remedy. A command that returns it exits with code 2.
type Error struct{ Text string }

// Error returns the text.
func (e Error) Error() string { return e.Text }

// Errorf returns an [Error] with a formatted text.
func Errorf(format string, args ...any) error { return Error{fmt.Sprintf(format, args...)} }
