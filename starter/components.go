package main

import (
	"path/filepath"
	"strings"

	"weft/specadapter"
	"weft/specadapter/source"
	"weft/starter/history"
)

// readComponents reads the files of -components and -component into the options of a flow's
// reading.
func (a *app) readComponents(o *specadapter.Options) error {
	for _, file := range a.flags.components {
		if err := a.addComponents(o, "-components", file); err != nil {
			return err
		}
	}
	for _, text := range a.flags.component {
		id, rest, ok := strings.Cut(text, "=")
		// A file's name may have a #, a key hardly ever.
		file, key, hasKey := history.CutLast(rest, "#")
		if !ok || !hasKey || id == "" || file == "" || key == "" {
			return bad("-component is %s, want ID=FILE#KEY", source.Quote(text))
		}
		for _, c := range o.ComponentIDs {
			if c.ID == id {
				return bad("-component gives the id %s twice: %s#%s and %s#%s; remove one of them", source.Quote(id), c.Name, c.Key, file, key)
			}
		}
		if err := a.addComponents(o, "-component", file); err != nil {
			return err
		}
		o.ComponentIDs = append(o.ComponentIDs, source.ComponentID{ID: id, Name: filepath.Clean(file), Key: key})
	}
	return nil
}

// addComponents reads a file once, however its name is written.
func (a *app) addComponents(o *specadapter.Options, flag, file string) error {
	if file == "" || file == "-" {
		return bad("%s is %s, want a file", flag, source.Quote(file))
	}
	file = filepath.Clean(file)
	for _, c := range o.Components {
		if c.Name == file {
			return nil
		}
	}
	data, err := a.readFile(flag, file)
	if err != nil {
		return err
	}
	o.Components = append(o.Components, source.Component{Name: file, Text: string(data)})
	return nil
}
