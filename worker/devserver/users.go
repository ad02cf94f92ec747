package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"syscall"
	"time"
)

// usersEvery is the interval at which the lock is checked.
const usersEvery = time.Second

// whileUsed returns a context that is cancelled when no process holds a shared lock on a file any
// more, and the function that unlocks the file at the very end: until then it is locked exclusively, so
// that a new user waits instead of using a server that stops. An empty name disables the check.
func whileUsed(ctx context.Context, file string) (context.Context, func(), error) {
	if file == "" {
		return ctx, func() {}, nil
	}
	f, err := os.OpenFile(file, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, nil, fmt.Errorf("watch the users of the server: %w", err)
	}
	inner, cancel := context.WithCancel(ctx)
	go func() {
		defer cancel()
		ticker := time.NewTicker(usersEvery)
		defer ticker.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-ticker.C:
			}
			if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); !errors.Is(err, syscall.EWOULDBLOCK) {
				return
			}
		}
	}()
	return inner, func() { cancel(); f.Close() }, nil
}
