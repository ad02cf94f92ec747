package store

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// Swept is the result of a sweep.
type Swept struct {
	// Removed and Kept are numbers of payloads; Freed and Held are their sizes in bytes.
	Removed, Kept int
	Freed, Held   int64
}

func (s *Swept) keep(bytes int64) {
	s.Kept++
	s.Held += bytes
}

func (s *Swept) free(bytes int64) {
	s.Removed++
	s.Freed += bytes
}

// staleTemp is the age from which an unfinished temporary file is removed.
const staleTemp = time.Hour

// Sweep removes payloads that were last stored longer than age ago. A payload may be read as long as
// Temporal retains a run that refers to it: age must exceed the duration of the longest run plus the
// namespace's retention. Workers and other sweeps may run concurrently. Sweep continues if it cannot
// remove a file, and returns the first such error.
func (s *Store) Sweep(ctx context.Context, age time.Duration) (Swept, error) {
	if s.driver.backend == nil {
		return Swept{}, errors.New("no store to sweep; " + noStore)
	}
	return s.driver.backend.sweep(ctx, time.Now().Add(-age))
}

func (d *directory) sweep(ctx context.Context, before time.Time) (Swept, error) {
	w := sweep{before: before}
	err := filepath.WalkDir(d.dir, func(file string, e fs.DirEntry, err error) error {
		top := filepath.Dir(file) == d.dir
		switch {
		case err != nil:
			return err
		case ctx.Err() != nil:
			return ctx.Err()
		case file == d.dir || top && (!e.IsDir() || len(e.Name()) == 2):
			return nil
		case e.IsDir():
			return fs.SkipDir
		}
		if err := w.entry(file, e); !errors.Is(err, fs.ErrNotExist) {
			w.failed = cmp.Or(w.failed, err)
		}
		return nil
	})
	if err = cmp.Or(err, w.failed); err != nil {
		err = fmt.Errorf("sweep %s: %w", d, err)
	}
	return w.Swept, err
}

type sweep struct {
	Swept
	before time.Time
	failed error
}

func (w *sweep) entry(file string, e fs.DirEntry) error {
	info, err := e.Info()
	if err != nil {
		return err
	}
	switch key, _, swept := strings.Cut(e.Name(), sweptSuffix); {
	case strings.HasPrefix(e.Name(), tempPrefix):
		if time.Since(info.ModTime()) > staleTemp {
			return os.Remove(file)
		}
		return nil
	case swept:
		// Another sweep is working on it, or was interrupted here.
		return w.settle(file, filepath.Join(filepath.Dir(file), key))
	case !hexKey.MatchString(e.Name()):
		return nil
	case info.ModTime().After(w.before):
		w.keep(info.Size())
		return nil
	}
	// A worker may be storing the payload concurrently. Once the file is renamed, no worker can renew
	// it, so its age is final. The new name is unique, because another sweep may rename a file that was
	// stored since.
	aside := file + sweptSuffix + "-" + rand.Text()
	if err := os.Rename(file, aside); err != nil {
		return err
	}
	return w.settle(aside, file)
}

// settle removes a renamed file, or restores it if it was renewed before the rename.
func (w *sweep) settle(aside, file string) error {
	info, err := os.Stat(aside)
	if err != nil {
		return err
	}
	if info.ModTime().After(w.before) {
		w.keep(info.Size())
		return os.Rename(aside, file)
	}
	w.free(info.Size())
	return os.Remove(aside)
}
