package serve

import (
	"bytes"
	"io/fs"
	"path"
	"time"
)

// overlay is a file system in which a folder holds other files than on disk, and those
// alone.
type overlay struct {
	fs.FS
	dir   string
	files map[string][]byte
}

// Open opens a file of the folder, or of the file system around it.
func (o overlay) Open(name string) (fs.File, error) {
	if path.Dir(name) != o.dir {
		return o.FS.Open(name)
	}
	data, ok := o.files[path.Base(name)]
	if !ok {
		return nil, &fs.PathError{Op: "open", Path: name, Err: fs.ErrNotExist}
	}
	return &memory{Reader: bytes.NewReader(data), name: path.Base(name)}, nil
}

// memory is a file that lies nowhere.
type memory struct {
	*bytes.Reader
	name string
}

// Stat describes it as a regular file.
func (m *memory) Stat() (fs.FileInfo, error) { return m, nil }

// Close does nothing.
func (*memory) Close() error { return nil }

// Name is the file's own name.
func (m *memory) Name() string { return m.name }

// Mode is that of a file that anybody may read.
func (*memory) Mode() fs.FileMode { return 0o444 }

// ModTime is not known.
func (*memory) ModTime() time.Time { return time.Time{} }

// IsDir is false.
func (*memory) IsDir() bool { return false }

// Sys is nothing.
func (*memory) Sys() any { return nil }
