package store

import (
	"bytes"
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

// directory stores each payload in a file, DIR/ab/abcd…, which is first written under a temporary name.
// Processes coordinate through the file system only, so that workers on several machines can share it.
type directory struct {
	// setting is the directory as configured, dir its absolute path; name is the store's id.
	setting, dir, name string
}

// nameFile contains the store's id, which distinguishes the store from another directory that is
// mounted at the same path.
const nameFile = "store.id"

// Prefix of temporary files and suffix of files that a sweep has renamed; each sweep appends a unique string.
const (
	tempPrefix  = ".new-"
	sweptSuffix = ".swept"
)

func newDirectory(s Settings) (backend, error) {
	dir, err := filepath.Abs(s.Dir)
	if err != nil {
		return nil, fmt.Errorf("store.dir %q: %w", s.Dir, err)
	}
	return &directory{setting: s.Dir, dir: dir}, nil
}

func (d *directory) check() error {
	for at := d.dir; ; at = filepath.Dir(at) {
		switch info, err := os.Stat(at); {
		case errors.Is(err, fs.ErrPermission):
			return d.unusable(err)
		case err == nil && !info.IsDir():
			return fmt.Errorf("store.dir %q cannot be created: %s is not a directory; use a directory that the worker can write", d.setting, at)
		case err == nil || at == filepath.Dir(at):
			if _, err := d.readID(); err != nil && !errors.Is(err, fs.ErrNotExist) {
				return d.unusable(err)
			}
			return nil
		}
	}
}

// open creates the directory, if it does not exist, and reads or creates its id.
func (d *directory) open() error {
	// Payloads contain conversations; other users of the machine must not read them.
	if err := os.MkdirAll(d.dir, 0o700); err != nil {
		return fmt.Errorf("store.dir %q cannot be created: %w; use a directory that the worker can write", d.setting, err)
	}
	if err := d.identify(); err != nil {
		return d.unusable(err)
	}
	return nil
}

func (d *directory) unusable(err error) error {
	return fmt.Errorf("store.dir %q cannot be used: %w; use a directory that the worker can read and write", d.setting, err)
}

// identify reads the store's id, or creates it. If several processes create it concurrently, all use the same id.
func (d *directory) identify() (err error) {
	d.name, err = d.readID()
	if !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	err = createFile(filepath.Join(d.dir, nameFile), []byte(strings.ToLower(rand.Text())+"\n"))
	if err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	if err := syncDir(d.dir); err != nil {
		return err
	}
	d.name, err = d.readID()
	return err
}

func (d *directory) readID() (string, error) {
	raw, err := os.ReadFile(filepath.Join(d.dir, nameFile))
	id := strings.TrimSpace(string(raw))
	if err == nil && id == "" {
		err = fmt.Errorf("%s is empty", nameFile)
	}
	return id, err
}

func (d *directory) id() string { return d.name }

func (d *directory) String() string { return "directory " + d.dir }

func (d *directory) file(key string) string { return filepath.Join(d.dir, key[:2], key) }

// put writes a file and syncs it before it returns. If the file exists already and is intact, put only
// renews its modification time, so that a sweep keeps it.
func (d *directory) put(_ context.Context, key string, data []byte) error {
	file := d.file(key)
	if old, err := os.ReadFile(file); err == nil && bytes.Equal(old, data) && d.renew(file) {
		return nil
	}
	folder := filepath.Dir(file)
	err := os.Mkdir(folder, 0o700)
	if err == nil {
		err = syncDir(d.dir)
	}
	if err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	temp, err := writeTemp(folder, data)
	if err != nil {
		return err
	}
	if err := os.Rename(temp, file); err != nil {
		os.Remove(temp)
		return err
	}
	return syncDir(folder)
}

// createFile writes a new file; the error is fs.ErrExist if it exists.
func createFile(file string, data []byte) error {
	temp, err := writeTemp(filepath.Dir(file), data)
	if err != nil {
		return err
	}
	defer os.Remove(temp)
	return os.Link(temp, file) // fails if file exists
}

// renew updates a file's modification time, and reports whether the file still exists: a sweep may
// rename and remove it meanwhile.
func (d *directory) renew(file string) bool {
	now := time.Now()
	if os.Chtimes(file, now, now) != nil {
		return false
	}
	info, err := os.Stat(file)
	// File systems may store times with a resolution of two seconds.
	return err == nil && !info.ModTime().Before(now.Add(-2*time.Second))
}

// writeTemp writes a file under a temporary name and syncs it.
func writeTemp(folder string, data []byte) (name string, err error) {
	f, err := os.CreateTemp(folder, tempPrefix+"*")
	if err != nil {
		return "", err
	}
	_, err = f.Write(data)
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err != nil {
		os.Remove(f.Name())
	}
	return f.Name(), err
}

// syncDir syncs a directory, which makes new file names in it durable.
func syncDir(dir string) error {
	f, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer f.Close()
	return f.Sync()
}

// find reads a payload's file, under its own name or one that a sweep has given it. It tries several
// times, because one sweep may restore the file and another may rename it again meanwhile.
func (d *directory) find(key string) ([]byte, error) {
	const looks = 10
	file := d.file(key)
	for n := 1; ; n++ {
		data, err := os.ReadFile(file)
		if !errors.Is(err, fs.ErrNotExist) {
			return data, err
		}
		aside, _ := os.ReadDir(filepath.Dir(file)) // an unreadable directory is treated as empty
		for _, e := range aside {
			if !strings.HasPrefix(e.Name(), key+sweptSuffix) {
				continue
			}
			if data, err := os.ReadFile(filepath.Join(filepath.Dir(file), e.Name())); !errors.Is(err, fs.ErrNotExist) {
				return data, err
			}
		}
		if n == looks {
			return nil, err
		}
		time.Sleep(time.Millisecond)
	}
}

// get reads a file. If the directory does not exist or belongs to another store, the error is not
// fs.ErrNotExist: the store may not be mounted.
func (d *directory) get(_ context.Context, key string) ([]byte, error) {
	data, err := d.find(key)
	if !errors.Is(err, fs.ErrNotExist) {
		return data, err
	}
	switch id, idErr := d.readID(); {
	case errors.Is(idErr, fs.ErrNotExist):
		return nil, fmt.Errorf("%s has no %s: is it mounted?", d.dir, nameFile)
	case idErr != nil:
		return nil, idErr
	case id != d.name:
		return nil, fmt.Errorf("%s was the store %s when this worker started and is a different one now", d.dir, d.name)
	}
	return nil, err
}
