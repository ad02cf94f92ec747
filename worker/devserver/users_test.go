package main

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"
)

// TestStopsWhenNobodyUsesIt holds the lock that a user holds, and lets it go.
func TestStopsWhenNobodyUsesIt(t *testing.T) {
	file := filepath.Join(t.TempDir(), "users")
	user, err := os.OpenFile(file, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	if err := syscall.Flock(int(user.Fd()), syscall.LOCK_SH); err != nil {
		t.Fatal(err)
	}
	p := begin(t, "-db", inMemory, "-port", "0", "-ui-port", "0", "-worker=false", "-users", file)
	ended := make(chan error, 1)
	go func() { ended <- p.Wait() }()
	select {
	case err := <-ended:
		t.Fatalf("it stopped although somebody uses it: %v\n%s", err, p.log)
	case <-time.After(2500 * time.Millisecond):
	}
	user.Close()
	select {
	case err := <-ended:
		if err != nil {
			t.Errorf("it stopped with %v\n%s", err, p.log)
		}
	case <-time.After(3 * time.Minute):
		t.Fatal("it goes on although nobody uses it")
	}
}
