package store

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

// age sets the time of a file back.
func age(t *testing.T, file string, by time.Duration) {
	t.Helper()
	then := time.Now().Add(-by)
	if err := os.Chtimes(file, then, then); err != nil {
		t.Fatal(err)
	}
}

func TestSweep(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir)
	claims := storeAll(t, s, "old", "new", "old, stored again")
	for _, i := range []int{0, 2} {
		age(t, s.driver.backend.(*directory).file(claims[i].ClaimData[claimKey]), 48*time.Hour)
	}
	storeAll(t, s, "old, stored again")
	unrelated := filepath.Join(dir, "ab", "notes.txt")
	newTemp := filepath.Join(dir, "ab", tempPrefix+"1")
	oldTemp := filepath.Join(dir, "ab", tempPrefix+"2")
	if err := os.MkdirAll(filepath.Dir(unrelated), 0o700); err != nil {
		t.Fatal(err)
	}
	for _, f := range []string{unrelated, newTemp, oldTemp} {
		if err := os.WriteFile(f, []byte("x"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	age(t, unrelated, 48*time.Hour)
	age(t, oldTemp, 2*time.Hour)
	got, err := s.Sweep(context.Background(), 24*time.Hour)
	if err != nil || got.Removed != 1 || got.Kept != 2 || got.Freed == 0 || got.Held == 0 {
		t.Errorf("Sweep() = %+v, %v", got, err)
	}
	for _, f := range []string{unrelated, newTemp} {
		if _, err := os.Stat(f); err != nil {
			t.Errorf("%s was removed", f)
		}
	}
	if _, err := os.Stat(oldTemp); err == nil {
		t.Error("an old temporary file was not removed")
	}
	back, err := fetch(s, claims[1], claims[2])
	if err != nil || string(back[0].GetData()) != "new" || string(back[1].GetData()) != "old, stored again" {
		t.Errorf("%v, %v", back, err)
	}
}

// TestInterruptedSweep checks that new payloads that an interrupted sweep had renamed are restored by the next sweep.
// The folder may have any name.
func TestInterruptedSweep(t *testing.T) {
	s := open(t, filepath.Join(t.TempDir(), "any [folder] *"))
	claims := storeAll(t, s, "old", "new")
	for i, c := range claims {
		file := s.driver.backend.(*directory).file(c.ClaimData[claimKey])
		if i == 0 {
			age(t, file, 48*time.Hour)
		}
		if err := os.Rename(file, file+sweptSuffix); err != nil {
			t.Fatal(err)
		}
	}
	if got, err := fetch(s, claims[1]); err != nil || string(got[0].GetData()) != "new" {
		t.Errorf("before the next sweep: %v, %v", got, err)
	}
	got, err := s.Sweep(context.Background(), 24*time.Hour)
	if err != nil || got.Removed != 1 || got.Kept != 1 {
		t.Errorf("Sweep() = %+v, %v", got, err)
	}
	if got, err := fetch(s, claims[1]); err != nil || string(got[0].GetData()) != "new" {
		t.Errorf("after the next sweep: %v, %v", got, err)
	}
	for _, f := range files(t, s.settings.Dir) {
		if strings.Contains(f, sweptSuffix) {
			t.Errorf("%s was left behind", f)
		}
	}
}

// TestSweepDuringWrites checks that no payload is lost if old payloads are stored again while sweeps remove
// them.
func TestSweepDuringWrites(t *testing.T) {
	s := open(t, t.TempDir())
	d := s.driver.backend.(*directory)
	var all sync.WaitGroup
	stop := make(chan struct{})
	for range 2 {
		all.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				if _, err := s.Sweep(context.Background(), time.Hour); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	for i := range 300 {
		c := storeAll(t, s, "payload")[0]
		if got, err := d.get(context.Background(), c.ClaimData[claimKey]); err != nil || !strings.HasSuffix(string(got), "payload") && !strings.Contains(string(got), "payload") {
			t.Errorf("round %d: %q, %v", i, got, err)
		}
		if i%3 == 0 {
			then := time.Now().Add(-2 * time.Hour)
			_ = os.Chtimes(d.file(c.ClaimData[claimKey]), then, then)
		}
	}
	close(stop)
	all.Wait()
}

func TestSweepErrors(t *testing.T) {
	noStore, err := Open(Settings{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := noStore.Sweep(context.Background(), time.Hour); err == nil || !strings.Contains(err.Error(), "set store.dir") {
		t.Errorf("error = %v", err)
	}
	removed := open(t, filepath.Join(t.TempDir(), "d"))
	if err := os.RemoveAll(removed.settings.Dir); err != nil {
		t.Fatal(err)
	}
	if _, err := removed.Sweep(context.Background(), time.Hour); err == nil || !strings.Contains(err.Error(), removed.settings.Dir) {
		t.Errorf("error = %v", err)
	}
	canceled, cancel := context.WithCancel(context.Background())
	cancel()
	s := open(t, t.TempDir())
	storeAll(t, s, "x")
	if _, err := s.Sweep(canceled, 0); err == nil || len(files(t, s.settings.Dir)) != 1 {
		t.Errorf("canceled sweep: error = %v", err)
	}
}
