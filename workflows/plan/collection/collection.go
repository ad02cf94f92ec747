// Package collection combines an operation on a collection with the arguments of a call, independently of the datastore
// that holds the collection.
//
// Start at [Fill].
package collection

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"weft/workflows/plan"
	"weft/workflows/plan/value"
)

// Names of arguments and results.
const (
	Entity   = "entity"
	Update   = "update"
	Bind     = "bind_variables"
	Created  = "created_entity"
	Entities = "entities"
	Result   = "result"
)

// Call is an operation with the arguments of a call.
type Call struct {
	Operation *plan.Operation
	// Collection is the one worked on, and Members are those that its objects may have; nil for a query.
	Collection *plan.Collection
	Members    []string
	// Where are the members that objects must have.
	Where []value.Member
	// Values are the members to write, or the values of a query.
	Values []value.Member
}

// Fill makes the call of a connection's operation. The error is for whoever gave the arguments.
func Fill(conn *plan.Connection, name string, args value.Value) (*Call, error) {
	i := slices.IndexFunc(conn.Operations, func(o plan.Operation) bool { return o.Name == name })
	if i < 0 {
		return nil, fmt.Errorf("there is no operation %q", name)
	}
	c := &Call{Operation: &conn.Operations[i]}
	given := map[string]string{plan.DoCreate: Entity, plan.DoUpdate: Update, plan.DoQuery: Bind}[c.Operation.Do]
	if given != "" {
		v, _ := args.Get(given)
		if v.Kind != value.Object {
			return nil, fmt.Errorf("%s is %s, want an object", given, v.Kind)
		}
		c.Values = v.Members
	}
	if c.Operation.Do == plan.DoQuery {
		return c, nil
	}
	if err := c.find(conn, args); err != nil {
		return nil, err
	}
	for _, m := range c.Values {
		if err := c.has(m.Key); err != nil {
			return nil, err
		}
	}
	if c.Operation.Do == plan.DoUpdate && len(c.Values) == 0 {
		return nil, errors.New("update has no members, so there is nothing to change")
	}
	return c, c.where(args)
}

// find sets the collection.
func (c *Call) find(conn *plan.Connection, args value.Value) error {
	name, names := value.FillIn(c.Operation.Collection, args), []string{}
	for i := range conn.Collections {
		if conn.Collections[i].Name == name {
			c.Collection = &conn.Collections[i]
			c.Members = Members(c.Collection)
			return nil
		}
		names = append(names, conn.Collections[i].Name)
	}
	return fmt.Errorf("there is no collection %q; there are: %s", name, strings.Join(names, ", "))
}

// Members are the names that a collection's objects may have, in the order of its schema.
func Members(c *plan.Collection) []string {
	var out []string
	schema, err := value.Parse(c.Schema)
	if err != nil {
		return nil
	}
	properties, _ := schema.Get("properties")
	for _, m := range properties.Members {
		out = append(out, m.Key)
	}
	return out
}

func (c *Call) has(member string) error {
	if !slices.Contains(c.Members, member) {
		return fmt.Errorf("objects of the collection %q have no member %q; they have: %s", c.Collection.Name, member, strings.Join(c.Members, ", "))
	}
	return nil
}

// where fills in the conditions.
func (c *Call) where(args value.Value) error {
	for _, w := range c.Operation.Where {
		m := value.Member{Key: value.FillIn(w.Member, args)}
		if err := c.has(m.Key); err != nil {
			return err
		}
		var err error
		if m.Value, err = value.Parse(w.Value); err != nil {
			return fmt.Errorf("the value of %q is not JSON: %w", m.Key, err)
		}
		if m.Value.Kind == value.String {
			arg, given := value.Value{}, false
			if is := value.Placeholder.FindStringSubmatch(m.Value.Text); is != nil && is[0] == m.Value.Text {
				arg, given = args.Get(is[1])
			}
			if given {
				m.Value = arg
			} else {
				m.Value = value.Of(value.FillIn(m.Value.Text, args))
			}
		}
		c.Where = append(c.Where, m)
	}
	return nil
}

// Results is the result of a call that gives objects, each as JSON.
func (c *Call) Results(objects []value.Value) (value.Value, error) {
	switch {
	case c.Operation.Do == plan.DoDelete:
		return value.Value{Kind: value.Object}, nil
	case c.Operation.Do == plan.DoQuery:
		return value.ObjectOf(Result, value.Of(objects)), nil
	case c.Operation.Do != plan.DoCreate && !c.Operation.One:
		return value.ObjectOf(Entities, value.Of(objects)), nil
	case len(objects) == 0:
		return value.Value{}, fmt.Errorf("no object of the collection %q matches the filter", c.Collection.Name)
	case c.Operation.One:
		return value.ObjectOf(Entities, objects[0]), nil
	}
	return value.ObjectOf(Created, objects[0]), nil
}
