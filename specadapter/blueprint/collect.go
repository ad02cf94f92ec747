package blueprint

import (
	"errors"
	"fmt"
	"io"
	"io/fs"

	"weft/specadapter/source"
)

// Bounds of what belongs to one agent.
const (
	// MaxFiles is how many files are read.
	MaxFiles = 500
	// MaxFileBytes and MaxFolderBytes are the most that one and all of them may have.
	MaxFileBytes   = 1 << 20
	MaxFolderBytes = 4 << 20
	// maxAsked is how many files are looked for, whether they are there or not.
	maxAsked = 16 * MaxFiles
)

// Collect reads an agent's folder and everything that a start of it can reach: capabilities,
// MCP servers and scripts of the registries around it, the agents that its hooks name, and
// all agents where it can start others. Main is the path of its agent.json in fsys; names of
// files are such paths, too.
//
// It reads regular files alone; fsys decides where links may lead (an os.Root's lets none
// lead out of it). It fails where a file cannot be read or a bound is exceeded, naming it.
// What a file says is [Adapter.Adapt]'s to judge.
func Collect(fsys fs.FS, main string) (text []byte, files []source.File, err error) {
	c := &collector{fsys: fsys, asked: map[string]bool{main: true}}
	text, err = c.read(main)
	if err != nil {
		return nil, nil, fmt.Errorf("read %s: %w", main, err)
	}
	if doc, _ := source.Parse(main, text); doc != nil {
		a := newAdaptation(doc, ProfileDefault, source.Host{})
		a.collector = c
		a.adapt(doc)
	}
	return text, c.files, c.err
}

type collector struct {
	fsys  fs.FS
	files []source.File
	bytes int
	asked map[string]bool
	err   error
}

// file reads a file that has not been asked for before, if it is there.
func (c *collector) file(name string) (text string, ok bool) {
	if c.asked[name] || c.err != nil {
		return "", false
	}
	if c.asked[name] = true; len(c.asked) > maxAsked {
		c.err = fmt.Errorf("the agent refers to more than %d files; use fewer capabilities or agents", maxAsked)
		return "", false
	}
	data, err := c.read(name)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return "", false
	case err != nil:
		c.err = fmt.Errorf("read %s: %w", name, err)
		return "", false
	}
	c.files = append(c.files, source.File{Name: name, Text: string(data)})
	return string(data), true
}

func (c *collector) read(file string) ([]byte, error) {
	f, err := c.fsys.Open(file)
	if err != nil {
		return nil, plainly(err)
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, plainly(err)
	}
	if !info.Mode().IsRegular() {
		return nil, errors.New("it is not a regular file")
	}
	data, err := io.ReadAll(io.LimitReader(f, MaxFileBytes+1))
	if err != nil {
		return nil, plainly(err)
	}
	c.bytes += len(data)
	switch {
	case len(data) > MaxFileBytes:
		return nil, fmt.Errorf("it exceeds the limit of %d bytes for an agent's file", MaxFileBytes)
	case c.bytes > MaxFolderBytes:
		return nil, fmt.Errorf("the agent's files have more than %d bytes in total; use fewer capabilities or agents", MaxFolderBytes)
	case len(c.files) >= MaxFiles:
		return nil, fmt.Errorf("the agent has more than %d files; use fewer capabilities or agents", MaxFiles)
	}
	return data, nil
}

// plainly drops what the message names anyway.
func plainly(err error) error {
	if at, ok := errors.AsType[*fs.PathError](err); ok {
		return at.Err
	}
	return err
}
