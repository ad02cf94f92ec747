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

// aged makes a file older.
func aged(t *testing.T, file string, by time.Duration) {
	t.Helper()
	then := time.Now().Add(-by)
	if err := os.Chtimes(file, then, then); err != nil {
		t.Fatal(err)
	}
}

func TestSweepRemovesWhatIsOld(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir)
	claims := keep(t, s, "old", "new", "old, stored again")
	for _, i := range []int{0, 2} {
		aged(t, s.driver.backend.(*directory).file(claims[i].ClaimData[claimKey]), 48*time.Hour)
	}
	keep(t, s, "old, stored again")
	foreign := filepath.Join(dir, "ab", "notes.txt")
	begun := filepath.Join(dir, "ab", tempPrefix+"1")
	left := filepath.Join(dir, "ab", tempPrefix+"2")
	if err := os.MkdirAll(filepath.Dir(foreign), 0o700); err != nil {
		t.Fatal(err)
	}
	for _, f := range []string{foreign, begun, left} {
		if err := os.WriteFile(f, []byte("x"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	aged(t, foreign, 48*time.Hour)
	aged(t, left, 2*time.Hour)
	got, err := s.Sweep(context.Background(), 24*time.Hour)
	if err != nil || got.Removed != 1 || got.Kept != 2 || got.Freed == 0 || got.Held == 0 {
		t.Errorf("swept %+v, %v", got, err)
	}
	for _, f := range []string{foreign, begun} {
		if _, err := os.Stat(f); err != nil {
			t.Errorf("%s is gone", f)
		}
	}
	if _, err := os.Stat(left); err == nil {
		t.Error("what was begun long ago is still there")
	}
	back, err := fetch(s, claims[1], claims[2])
	if err != nil || string(back[0].GetData()) != "new" || string(back[1].GetData()) != "old, stored again" {
		t.Errorf("%v, %v", back, err)
	}
}

// TestSweepThatWasCut finds what an earlier sweep had in its hands: what is new goes back. The
// folder may have any name.
func TestSweepThatWasCut(t *testing.T) {
	s := open(t, filepath.Join(t.TempDir(), "any [folder] *"))
	claims := keep(t, s, "old", "new")
	for i, c := range claims {
		file := s.driver.backend.(*directory).file(c.ClaimData[claimKey])
		if i == 0 {
			aged(t, file, 48*time.Hour)
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
		t.Errorf("swept %+v, %v", got, err)
	}
	if got, err := fetch(s, claims[1]); err != nil || string(got[0].GetData()) != "new" {
		t.Errorf("after it: %v, %v", got, err)
	}
	for _, f := range files(t, s.settings.Dir) {
		if strings.Contains(f, sweptSuffix) {
			t.Errorf("%s is left", f)
		}
	}
}

// TestSweepBesideWorkers sweeps while payloads that are old are stored again: none that was
// stored is gone.
func TestSweepBesideWorkers(t *testing.T) {
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
		c := keep(t, s, "payload")[0]
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

func TestSweepOfNothing(t *testing.T) {
	none, err := Open(Settings{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := none.Sweep(context.Background(), time.Hour); err == nil || !strings.Contains(err.Error(), "set store.dir") {
		t.Errorf("error is %v", err)
	}
	gone := open(t, filepath.Join(t.TempDir(), "d"))
	if err := os.RemoveAll(gone.settings.Dir); err != nil {
		t.Fatal(err)
	}
	if _, err := gone.Sweep(context.Background(), time.Hour); err == nil || !strings.Contains(err.Error(), gone.settings.Dir) {
		t.Errorf("error is %v", err)
	}
	cut, cancel := context.WithCancel(context.Background())
	cancel()
	s := open(t, t.TempDir())
	keep(t, s, "x")
	if _, err := s.Sweep(cut, 0); err == nil || len(files(t, s.settings.Dir)) != 1 {
		t.Errorf("a sweep that was cut: %v", err)
	}
}
