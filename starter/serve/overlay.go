package serve

import (
	"io/fs"
	"path"
	"testing/fstest"
)

// overlay is a file system in which the folder dir holds files, and nothing else.
type overlay struct {
	fs.FS
	dir   string
	files fstest.MapFS
}

func newOverlay(around fs.FS, dir string, files map[string][]byte) overlay {
	o := overlay{around, dir, fstest.MapFS{}}
	for name, data := range files {
		o.files[name] = &fstest.MapFile{Data: data, Mode: 0o444}
	}
	return o
}

// Open opens a file of the folder, or of the file system around it.
func (o overlay) Open(name string) (fs.File, error) {
	if path.Dir(name) != o.dir {
		return o.FS.Open(name)
	}
	return o.files.Open(path.Base(name))
}
