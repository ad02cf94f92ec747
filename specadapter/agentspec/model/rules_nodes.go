package model

import (
	"cmp"
	"fmt"
	"net/url"
	"regexp"
	"slices"
	"strings"

	"weft/specadapter/source"
	"weft/workflows/plan/value"
)

// equalIO requires a node's inputs and outputs to be equal if both are declared.
func (l *loader) equalIO(c *Component, code string) {
	if !c.ins || !c.outs {
		return
	}
	const help = "remove outputs, or make them equal to inputs"
	for _, in := range c.Inputs {
		out := c.Output(in.Title)
		switch {
		case out == nil:
			l.Errorf(in.At, code, help, "input %s of %s is not among its outputs; inputs and outputs must be equal", source.Quote(in.Title), c)
		case !l.equal(in.At, in.Schema, out.Schema):
			l.Errorf(out.At, code, help, "output %s of %s differs from the input of that title; inputs and outputs must be equal", source.Quote(in.Title), c)
		}
	}
	for _, out := range c.Outputs {
		if c.Input(out.Title) == nil {
			l.Errorf(out.At, code, help, "output %s of %s is not among its inputs; inputs and outputs must be equal", source.Quote(out.Title), c)
		}
	}
}

func checkBranching(l *loader, c *Component) {
	if len(c.Inputs) != 1 {
		at := c.FieldPos("inputs")
		if len(c.Inputs) > 1 {
			at = c.Inputs[1].At
		}
		l.Errorf(at, "branching-one-input", "declare the one input that mapping looks up", "%s has %d inputs, expected one", c, len(c.Inputs))
	}
	mapping := c.JSON("mapping")
	for _, m := range mapping.Members {
		if m.Value.Text == DefaultBranch {
			l.Warnf(m.Value.Pos, "branching-mapping", "rename the branch or remove the value from mapping",
				"mapping of %s has a branch named default, which is also the branch of unmapped values", c)
		}
	}
	if len(mapping.Members) == 0 {
		l.Warnf(mapping.Pos, "branching-mapping", "map values to branches", "mapping of %s is empty; every value takes the branch default", c)
	}
}

func checkInputMessage(l *loader, c *Component) {
	help := "declare one output of type string or remove outputs"
	if len(c.Outputs) != 1 {
		at := c.FieldPos("outputs")
		if len(c.Outputs) > 1 {
			at = c.Outputs[1].At
		}
		l.Errorf(at, "inputmsg-one-string-output", help, "%s has %d outputs, expected one", c, len(c.Outputs))
		return
	}
	if out := c.Outputs[0]; out.Type.Kind != StringShape {
		l.Errorf(out.At, "inputmsg-one-string-output", help, "output %s of %s is %s, expected string", source.Quote(out.Title), c, out.Type)
	}
}

// reducers are the methods that combine the outputs of a map's iterations.
var reducers = []string{"append", "sum", "average", "max", "min"}

func checkMap(l *loader, c *Component) {
	sub := c.Component("subflow")
	if unknownIO(sub) {
		return
	}
	for _, m := range c.JSON("reducers").Members {
		if !slices.Contains(reducers, m.Value.Text) {
			help := "use one of: " + strings.Join(reducers, ", ")
			if m.Value.Text == "avg" {
				help = `use "average"`
			}
			l.Errorf(m.Value.Pos, "reducer-unknown-method", help, "unknown reducer %s of %s in %s", m.Value.Describe(), source.Quote(m.Key), c)
			continue
		}
		out := sub.Output(m.Key)
		if out == nil {
			help := expected(sub.Outputs)
			if sub.Output(strings.TrimPrefix(m.Key, Collected)) != nil {
				help = "use the subflow's name without " + Collected
			}
			l.Errorf(m.KeyPos, "reducer-unknown-output", help, "unknown output %s of %s in reducers of %s", source.Quote(m.Key), sub, c)
			continue
		}
		if m.Value.Text != "append" && !out.Type.all(func(t *Shape) bool { return t.Kind == IntegerShape || t.Kind == NumberShape }) {
			l.Errorf(m.Value.Pos, "reducer-non-numeric", `use append, or make the output an integer or a number`, "the reducer %s of %s does not accept %s, which is %s",
				m.Value.Text, c, source.Quote(m.Key), out.Type)
		}
	}
}

func checkParallelMap(l *loader, c *Component) {
	checkMap(l, c)
	l.waitsInParallel(c, c.Components("subflow"))
}

// waitsInParallel notes that several branches may wait for a user at the same time.
func (l *loader) waitsInParallel(c *Component, subs []*Component) {
	if waits := firstYield(subs); waits != "" {
		l.Infof(c.At, "yield-in-parallel", "", "%s can wait for a user in several branches at once, in %s; each request has its own id", c, waits)
	}
}

func checkParallel(l *loader, c *Component) {
	l.waitsInParallel(c, c.Components("subflows"))
	inputs, outputs := map[string]*Property{}, map[string]*Component{}
	for i, sub := range c.Components("subflows") {
		if unknownIO(sub) {
			continue
		}
		at := l.itemAt(c, "subflows", i)
		for _, in := range sub.Inputs {
			if first := inputs[in.Title]; first != nil && !l.same(at, first.Type, in.Type) {
				l.Errorf(at, "parallelflow-input-type-conflict", "use the same type in all subflows, or two names", "input %s of %s is %s, but %s in an earlier subflow of %s",
					source.Quote(in.Title), sub, in.Type, first.Type, c)
			}
			inputs[in.Title] = in
		}
		for _, out := range sub.Outputs {
			if first := outputs[out.Title]; first != nil {
				l.Errorf(at, "parallelflow-output-dup", "rename the output in one subflow", "output %s of %s is also an output of %s; titles in %s must be unique",
					source.Quote(out.Title), sub, first, c)
			}
			outputs[out.Title] = sub
		}
	}
	if len(c.Components("subflows")) == 0 {
		l.Warnf(c.At, "parallelflow-empty", "list flows in subflows", "%s has no subflows", c)
	}
}

func checkCatch(l *loader, c *Component) {
	l.catches(c, CaughtBranch, CaughtInfo)
	sub := c.Component("subflow")
	if unknownIO(sub) {
		return
	}
	at := c.FieldPos("subflow")
	for _, out := range sub.Outputs {
		declared := c.Output(out.Title)
		if out.Title != CaughtInfo && out.Default == nil && (declared == nil || declared.Default == nil) {
			place := at
			if declared != nil && c.outs {
				place = declared.At
			}
			l.Errorf(place, "catch-default-missing", "set a default for the output in the node or its subflow", "output %s of %s has no default, so it has no value after an error", source.Quote(out.Title), c)
		}
	}
}

// catches reports conflicts between the names of a node that catches failures and those of its subflow.
func (l *loader) catches(c *Component, branch string, own ...string) {
	sub := c.Component("subflow")
	if unknownIO(sub) {
		return
	}
	at := c.FieldPos("subflow")
	if slices.Contains(ends(sub), branch) {
		l.Errorf(at, "catch-branch-conflict", "change the branch_name of the EndNode", "the branch %s of %s is the one that %s takes after an error", branch, sub, c)
	}
	for _, out := range sub.Outputs {
		if slices.Contains(own, out.Title) {
			l.Errorf(at, "catch-output-conflict", "rename the output", "the output %s of %s is reserved for the error that %s returns", out.Title, sub, c)
		}
	}
}

// inferStore infers the inputs and the output of a datastore node: an object, and an object or a list of objects.
func inferStore(takes, gives string) func(*loader, *Component) inferred {
	return func(l *loader, c *Component) inferred {
		inf := inferred{in: placeholders(l, c)}
		if takes != "" {
			inf.in = append(inf.in, &Property{Title: takes, Type: anyObject, At: c.At})
		}
		if gives == "" {
			return inf
		}
		out := &Property{Title: gives, Type: ArrayOf(anyObject), At: c.At}
		if gives == "created_entity" || c.Type.Field("unpack_single_entity_from_list") != nil && c.Flag("unpack_single_entity_from_list") {
			out.Type = anyObject
		}
		inf.out = []*Property{out}
		return inf
	}
}

func checkStoreNode(l *loader, c *Component) {
	store := c.Component("datastore")
	if name := c.FieldPos("collection_name"); c.Type.Field("collection_name") != nil && store != nil && !strings.Contains(c.Text("collection_name"), "{{") {
		if schema := store.JSON("datastore_schema"); schema.Get(c.Text("collection_name")) == nil {
			l.Errorf(name, "datastore-node", "name a collection of its datastore_schema", "%s has no collection %s", store, source.Quote(c.Text("collection_name")))
		}
	}
	if c.Type.Field("limit") != nil {
		if f := c.Field("limit"); f != nil && c.Number("limit") < 1 {
			l.Errorf(f.At, "datastore-node", "use a number of at least 1", "limit of %s is %s", c, f.JSON.Describe())
		}
		if c.Flag("unpack_single_entity_from_list") && c.Number("limit") != 1 {
			l.Errorf(c.FieldPos("unpack_single_entity_from_list"), "datastore-node", "set \"limit\": 1", "%s returns a single object, but lists several", c)
		}
	}
	if where := c.Type.Field("where"); where != nil && c.Type.Field("limit") == nil && c.Field("where") == nil {
		l.Errorf(c.At, "field-missing", "set \"where\"; {} selects all objects", "%s has no where", c)
	}
	if c.Type.Field("query") != nil && strings.Contains(c.Text("query"), "{{") {
		l.Errorf(c.FieldPos("query"), "datastore-node", "use :NAME, and pass the value in bind_variables", "query of %s has a placeholder", c)
	}
}

// checkHTTP validates an HTTP request, or a transport, which has some of the same fields.
func checkHTTP(l *loader, c *Component) {
	checkRetry(l, c)
	l.checkHeaders(c)
	l.checkURL(c, "url")
	l.checkAllowed(c)
	if m := c.Text("http_method"); m != "" && !strings.Contains(m, "{{") && !methodName.MatchString(m) {
		l.Errorf(c.FieldPos("http_method"), "http-method", "use GET, POST or another method", "http_method of %s is %s, which is not an HTTP method", c, source.Quote(m))
	}
}

var methodName = regexp.MustCompile(`^[A-Za-z]*$`)

func (l *loader) checkHeaders(c *Component) {
	sensitive := c.Field("sensitive_headers")
	if sensitive == nil {
		return
	}
	hidden := make(map[string]bool, len(sensitive.Keys))
	for _, k := range sensitive.Keys {
		hidden[strings.ToLower(k)] = true
	}
	for _, m := range c.JSON("headers").Members {
		if hidden[strings.ToLower(m.Key)] {
			l.Errorf(m.KeyPos, "headers-disjoint", "remove it from headers", "the header %s of %s is in both headers and sensitive_headers", source.Quote(m.Key), c)
		}
	}
}

// HostOf returns the scheme and host of an address: everything before the path.
func HostOf(address string) string {
	scheme, rest, ok := strings.Cut(address, "://")
	if !ok {
		scheme, rest = "", address
	}
	if i := strings.IndexAny(rest, "/?#"); i >= 0 {
		rest = rest[:i]
	}
	return scheme + "://" + rest
}

// checkURL requires an HTTP URL with a fixed host, or an allow list.
func (l *loader) checkURL(c *Component, field string) {
	text := c.Text(field)
	f := c.Field(field)
	if f == nil {
		return
	}
	host := HostOf(text)
	if strings.Contains(host, "{{") {
		if c.Field("url_allow_list") == nil {
			l.Strictf(f.At, "templated-host-without-allow-list", "use a fixed host, or list the allowed URLs in url_allow_list",
				"the host in %s of %s is a placeholder; its value determines where the request goes", field, c)
		}
		return
	}
	l.address(f.At, text, field+" of "+c.String())
}

// address requires an absolute HTTP URL without a password. It returns nil after reporting an error.
func (l *loader) address(at source.Pos, text, what string) *url.URL {
	// A URL with placeholders would not parse.
	u, ok := source.ServerURL(value.Placeholder.ReplaceAllString(text, "x"))
	switch {
	case !ok:
		l.Errorf(at, "url", "use http:// or https:// and a host", "%s is %s, which is not an http or https URL", what, source.Quote(text))
		return nil
	case u.User != nil:
		l.Errorf(at, "url", "remove the name and password, and put them into sensitive_headers", "%s contains a user name or password", what)
		return nil
	}
	return u
}

// checkAllowed validates the list of allowed URLs, and the URL against it.
func (l *loader) checkAllowed(c *Component) {
	f := c.Field("url_allow_list")
	if f == nil {
		return
	}
	text := c.Text("url")
	fixed := !strings.Contains(text, "{{")
	allowed := false
	for _, item := range f.JSON.Items {
		u := l.address(item.Pos, item.Text, "an item of url_allow_list of "+c.String())
		if u == nil {
			return
		}
		target, err := url.Parse(text)
		allowed = allowed || !fixed || err == nil && u.Scheme == target.Scheme && strings.EqualFold(u.Host, target.Host) && strings.HasPrefix(target.Path, u.Path)
	}
	if !allowed && fixed {
		l.Errorf(c.FieldPos("url"), "url-not-allowed", "add it to url_allow_list", "url of %s is %s, which its url_allow_list does not contain", c, source.Quote(text))
	}
}

func checkStdio(l *loader, c *Component) {
	lines := fmt.Sprintf("allow_commands: [%q]", c.Text("command"))
	for _, m := range c.JSON("env").Members {
		lines += fmt.Sprintf(" and allow_env: [%q]", m.Key)
	}
	if dir := c.Text("cwd"); dir != "" {
		lines += fmt.Sprintf(" and allow_dirs: [%q]", dir)
	}
	l.Strictf(c.At, "stdio-transport", fmt.Sprintf("allow it in weft.yaml: %s, or configure connections.%s", lines, SafeID(cmp.Or(c.Name, c.ID, "mcp"))),
		"%s runs a program on the worker, which the worker's configuration must allow", c)
}

func checkRetry(l *loader, c *Component) {
	f := c.Field("retry_policy")
	if f == nil {
		return
	}
	check := func(name, want string, ok func(n float64) bool) {
		if !ok(f.Number(name)) {
			at := f.At
			if part := f.Fields[name]; part != nil {
				at = part.At
			}
			l.Errorf(at, "retry-bounds", "use a number that is "+want, "%s in retry_policy of %s is not %s", name, c, want)
		}
	}
	for _, name := range []string{"max_attempts", "initial_retry_delay", "max_retry_delay"} {
		check(name, "0 or more", func(n float64) bool { return n >= 0 })
	}
	for _, name := range []string{"request_timeout", "backoff_factor"} {
		check(name, "more than 0", func(n float64) bool { return n > 0 || f.Fields[name] == nil })
	}
	first := f.Number("initial_retry_delay")
	check("max_retry_delay", "at least initial_retry_delay", func(most float64) bool { return most >= first || most < 0 || first < 0 })
}

func checkModel(l *loader, c *Component) {
	checkRetry(l, c)
	if f := c.Field("url"); f != nil && strings.TrimSpace(c.Text("url")) == "" {
		l.Errorf(f.At, "url", "use the server's address", "url of %s is blank", c)
	}
	if u, err := url.Parse(c.Text("url")); err == nil && u.User != nil {
		l.Errorf(c.FieldPos("url"), "url", "remove the name and password, and use api_key", "url of %s contains a user name or password", c)
	}
}
