package collection

import (
	"fmt"
	"slices"

	"weft/workflows/plan"
	"weft/workflows/plan/value"
)

// The collections of a run are one value of its state: an object with a list of objects per collection, by [Key].

// Key returns the name of a connection's collection among those of a run.
func Key(conn *plan.Connection, c *plan.Collection) string { return conn.ID + "/" + c.Name }

// The members of a change, as [Call.Change] encodes it.
const (
	changeIn     = "in"
	changeDo     = "do"
	changeWhere  = "where"
	changeValues = "values"
)

// Complete converts the values of a call to the types in its collection's schema, and adds the missing members of a new
// object: the schema's default, or null if the schema allows it.
func (c *Call) Complete() error {
	schema, err := value.Parse(c.Collection.Schema)
	if err != nil {
		return fmt.Errorf("invalid schema of the collection %q: %w", c.Collection.Name, err)
	}
	properties, _ := schema.Get("properties")
	if c.Operation.Do == plan.DoCreate {
		entity := value.Value{Members: c.Values}
		c.Values = nil
		for _, p := range properties.Members {
			v, ok := entity.Get(p.Key)
			if !ok {
				v, ok = p.Value.Get("default")
			}
			if _, castErr := cast(p.Value, value.Value{}); !ok && castErr != nil {
				return fmt.Errorf("entity has no member %q, and the schema has no default for it", p.Key)
			}
			c.Values = append(c.Values, value.Member{Key: p.Key, Value: v})
		}
	}
	for _, list := range [][]value.Member{c.Values, c.Where} {
		for i := range list {
			p, _ := properties.Get(list[i].Key)
			if list[i].Value, err = cast(p, list[i].Value); err != nil {
				return fmt.Errorf("%q: %w", list[i].Key, err)
			}
		}
	}
	return nil
}

// cast converts a value to a property's type. Null is not converted to another type.
func cast(property, v value.Value) (value.Value, error) {
	out, err := value.Cast(property.JSON(), v)
	if err == nil && v.Kind == value.Null && out.Kind != value.Null {
		err = fmt.Errorf("null is not allowed by its type")
	}
	return out, err
}

// Change returns the change that a call makes to a collection of a run, for [Apply].
func (c *Call) Change(conn *plan.Connection) value.Value {
	members := func(list []value.Member) value.Value { return value.Value{Kind: value.Object, Members: list} }
	return members([]value.Member{{Key: changeIn, Value: value.Of(Key(conn, c.Collection))}, {Key: changeDo, Value: value.Of(c.Operation.Do)},
		{Key: changeWhere, Value: members(c.Where)}, {Key: changeValues, Value: members(c.Values)}})
}

// Find returns the objects that a call lists.
func (c *Call) Find(conn *plan.Connection, stores value.Value) []value.Value {
	all, _ := stores.Get(Key(conn, c.Collection))
	out := []value.Value{}
	for _, o := range all.Items {
		if hasMembers(o, c.Where) && (c.Operation.Limit == 0 || len(out) < c.Operation.Limit) {
			out = append(out, o)
		}
	}
	return out
}

// Apply applies a change to the collections of a run. It returns the new collections, and the objects that are new or
// changed.
func Apply(stores, change value.Value) (after value.Value, changed []value.Value) {
	in, _ := change.Get(changeIn)
	do, _ := change.Get(changeDo)
	where, _ := change.Get(changeWhere)
	values, _ := change.Get(changeValues)
	all, _ := stores.Get(in.Text)
	list := slices.Clone(all.Items)
	switch do.Text {
	case plan.DoCreate:
		list, changed = append(list, values), []value.Value{values}
	case plan.DoUpdate:
		for i := range list {
			if hasMembers(list[i], where.Members) {
				list[i] = updated(list[i], values.Members)
				changed = append(changed, list[i])
			}
		}
	case plan.DoDelete:
		list = slices.DeleteFunc(list, func(o value.Value) bool { return hasMembers(o, where.Members) })
	}
	return updated(stores, []value.Member{{Key: in.Text, Value: value.Of(list)}}), changed
}

// hasMembers reports whether an object has the given members.
func hasMembers(o value.Value, members []value.Member) bool {
	return !slices.ContainsFunc(members, func(m value.Member) bool {
		v, _ := o.Get(m.Key)
		return !value.Equal(value.ByValue, v, m.Value)
	})
}

// updated returns an object with some members replaced or added.
func updated(o value.Value, members []value.Member) value.Value {
	out := value.Value{Kind: value.Object, Members: slices.Clone(o.Members)}
	for _, m := range members {
		i := slices.IndexFunc(out.Members, func(have value.Member) bool { return have.Key == m.Key })
		if i < 0 {
			out.Members = append(out.Members, m)
		} else {
			out.Members[i].Value = m.Value
		}
	}
	return out
}
