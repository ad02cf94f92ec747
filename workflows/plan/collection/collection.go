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

// Call is an operation combined with the arguments of a call.
type Call struct {
	Operation *plan.Operation
	// Collection is the collection to operate on, and Members are the names that its objects may have; nil for a query.
	Collection *plan.Collection
	Members    []string
	// Where are the members that objects must have.
	Where []value.Member
	// Values are the members to write, or the values of a query.
	Values []value.Member
}

// Fill combines a connection's operation with arguments. The error is about the arguments.
func Fill(conn *plan.Connection, name string, args value.Value) (*Call, error) {
	i := slices.IndexFunc(conn.Operations, func(o plan.Operation) bool { return o.Name == name })
	if i < 0 {
		return nil, fmt.Errorf("unknown operation %q", name)
	}
	c := &Call{Operation: &conn.Operations[i]}
	argument := map[string]string{plan.DoCreate: Entity, plan.DoUpdate: Update, plan.DoQuery: Bind}[c.Operation.Do]
	if argument != "" {
		v, _ := args.Get(argument)
		if v.Kind != value.Object {
			return nil, fmt.Errorf("%s must be an object, got %s", argument, v.Kind)
		}
		c.Values = v.Members
	}
	if c.Operation.Do == plan.DoQuery {
		return c, nil
	}
	if err := c.setCollection(conn, args); err != nil {
		return nil, err
	}
	for _, m := range c.Values {
		if err := c.checkMember(m.Key); err != nil {
			return nil, err
		}
	}
	if c.Operation.Do == plan.DoUpdate && len(c.Values) == 0 {
		return nil, errors.New("update is empty; set the members to change")
	}
	return c, c.setConditions(args)
}

// setCollection sets the collection.
func (c *Call) setCollection(conn *plan.Connection, args value.Value) error {
	name, names := value.FillIn(c.Operation.Collection, args), []string{}
	for i := range conn.Collections {
		if conn.Collections[i].Name == name {
			c.Collection = &conn.Collections[i]
			c.Members = Members(c.Collection)
			return nil
		}
		names = append(names, conn.Collections[i].Name)
	}
	return fmt.Errorf("unknown collection %q; available collections: %s", name, strings.Join(names, ", "))
}

// Members returns the names of the members that a collection's objects may have, in the order of its schema.
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

func (c *Call) checkMember(member string) error {
	if !slices.Contains(c.Members, member) {
		return fmt.Errorf("objects of the collection %q have no member %q; they have: %s", c.Collection.Name, member, strings.Join(c.Members, ", "))
	}
	return nil
}

// setConditions sets the conditions, with placeholders replaced.
func (c *Call) setConditions(args value.Value) error {
	for _, w := range c.Operation.Where {
		m := value.Member{Key: value.FillIn(w.Member, args)}
		if err := c.checkMember(m.Key); err != nil {
			return err
		}
		var err error
		if m.Value, err = value.Parse(w.Value); err != nil {
			return fmt.Errorf("the value of %q is not JSON: %w", m.Key, err)
		}
		if m.Value.Kind == value.String {
			arg, isArg := value.Value{}, false
			if match := value.Placeholder.FindStringSubmatch(m.Value.Text); match != nil && match[0] == m.Value.Text {
				arg, isArg = args.Get(match[1])
			}
			if isArg {
				m.Value = arg
			} else {
				m.Value = value.Of(value.FillIn(m.Value.Text, args))
			}
		}
		c.Where = append(c.Where, m)
	}
	return nil
}

// Results returns the result of a call, given its objects.
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
