package blueprint

import (
	"fmt"

	"weft/specadapter/source"
)

// object is an object of one of the agent's files whose fields are being read.
type object struct {
	*source.Fields
	a *adaptation
}

// object begins to read a value's fields; it reports a value that is not an object.
func (a *adaptation) object(v *source.Value, name string) *object {
	return &object{Fields: a.Fields(v, name, ""), a: a}
}

// open begins to read the object in a file; nil where there is none, which is reported.
func (a *adaptation) open(file, name string) *object {
	root := a.parse(file)
	if root == nil {
		return nil
	}
	if o := a.object(root, name); o.OK {
		return o
	}
	return nil
}

func (o *object) file() string { return o.Value.Pos.File }

type word struct {
	text string
	at   source.Pos
}

// Bounds of what one agent names, so that its cost stays small whatever it holds.
const (
	maxWords   = 1000
	maxServers = 100
	maxHeaders = 100
)

// fits reports a list or object with more elements than are read.
func (o *object) fits(v *source.Value, what string, most int) bool {
	n := len(v.Items) + len(v.Members)
	if n <= most {
		return true
	}
	o.a.Errorf(v.Pos, CodeTooMany, "remove what is not needed", "%s has %d elements, over the limit of %d", what, n, most)
	return false
}

func (o *object) words(key string) []word {
	v := o.Want(key, source.Array)
	if v == nil || !o.fits(v, key+" of "+o.Name, maxWords) {
		return nil
	}
	var out []word
	for i, item := range v.Items {
		if text, ok := o.a.Text(item, fmt.Sprintf("%s[%d] of %s", key, i, o.Name), false); ok {
			out = append(out, word{text, item.Pos})
		}
	}
	return out
}
