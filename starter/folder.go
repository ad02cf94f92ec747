package main

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"weft/specadapter"
)

// readFlow reads a flow: a file, standard input, or a folder with all that belongs to it. A
// folder's main document stands for the folder.
func (a *app) readFlow(file string) (*specadapter.Folder, error) {
	if file == "-" {
		data, err := a.readFile("the flow", file)
		return &specadapter.Folder{Name: "stdin", Text: data}, err
	}
	if info, err := os.Stat(file); err == nil && info.IsDir() {
		main := filepath.Join(file, specadapter.FolderMain)
		if _, err := os.Stat(main); errors.Is(err, fs.ErrNotExist) {
			return nil, bad("read the flow: %s is a folder without %s; use a file", file, specadapter.FolderMain)
		}
		file = main
	}
	if filepath.Base(file) != specadapter.FolderMain {
		data, err := a.readFile("the flow", file)
		return &specadapter.Folder{Name: file, Text: data}, err
	}
	return readFolder(file)
}

// readFolder reads the folder of a main document. Nothing outside the folder of its
// registries is read, wherever links lead.
func readFolder(file string) (*specadapter.Folder, error) {
	whole, err := filepath.Abs(file)
	if err != nil {
		return nil, bad("read the flow: %v", err)
	}
	at, main := specadapter.Locate(whole)
	root, err := os.OpenRoot(at)
	if err != nil {
		return nil, bad("read the flow: %v", cause(err))
	}
	defer root.Close()
	folder, err := specadapter.ReadFolder(root.FS(), main)
	if err != nil {
		return nil, bad("read the flow: in %s: %v", at, err)
	}
	// Messages name files as the caller does: from here where that is possible.
	if !filepath.IsAbs(file) {
		if here, err := os.Getwd(); err == nil {
			if rel, err := filepath.Rel(here, at); err == nil {
				at = rel
			}
		}
	}
	return folder.Under(at), nil
}
