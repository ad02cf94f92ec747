package main

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"
)

// TestStopsWithoutUsers checks that the server stops once its last user releases the lock.
func TestStopsWithoutUsers(t *testing.T) {
	file := filepath.Join(t.TempDir(), "users")
	user, err := os.OpenFile(file, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	if err := syscall.Flock(int(user.Fd()), syscall.LOCK_SH); err != nil {
		t.Fatal(err)
	}
	p := start(t, "-db", inMemory, "-port", "0", "-ui-port", "0", "-worker=false", "-users", file)
	done := make(chan error, 1)
	go func() { done <- p.Wait() }()
	select {
	case err := <-done:
		t.Fatalf("stopped although in use: %v\n%s", err, p.log)
	case <-time.After(2500 * time.Millisecond):
	}
	user.Close()
	select {
	case err := <-done:
		if err != nil {
			t.Errorf("stopped with %v\n%s", err, p.log)
		}
	case <-time.After(3 * time.Minute):
		t.Fatal("not stopped although unused")
	}
}
