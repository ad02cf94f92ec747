package model

import (
	"cmp"
	"fmt"
	"net/url"
	"regexp"
	"strings"

	"weft/specadapter/source"
	"weft/workflows/plan/value"
)

// checkHTTP judges a request over HTTP, or a transport, which has some of its fields.
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

// HostOf is the part of an address that says where a request goes: all before the path.
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

// checkURL wants an address over HTTP whose host its author wrote.
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

// address wants an absolute address over HTTP, without a password.
func (l *loader) address(at source.Pos, text, what string) *url.URL {
	// A placeholder in the path would not parse.
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

// checkAllowed checks the list of allowed addresses, and the address against it.
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
