package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"syscall"
	"time"
)

// usersEvery is how often it is looked whether anybody uses the server.
const usersEvery = time.Second

// whileUsed gives a context that ends when no process holds a shared lock on a file any
// more, and the function that frees the file at the very end: until then it is locked, so
// that who comes meanwhile waits instead of joining a server that stops. An empty name
// means to run until told to stop.
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
