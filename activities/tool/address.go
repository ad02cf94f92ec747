package tool

import (
	"net/url"
	"regexp"
	"strings"

	"weft/activities/contract"
	"weft/workflows/plan"
	"weft/workflows/plan/value"
)

// hasAddressTemplate reports whether the arguments of a call choose the server of a request.
func hasAddressTemplate(c plan.Connection) bool {
	return c.Kind == plan.ConnectionHTTP && strings.Contains(c.URL, "{{")
}

// hostValue is what may stand for a part of a server's name.
var hostValue = regexp.MustCompile(`^[A-Za-z0-9._:\[\]-]+$`)

// fillAddress fills the placeholders in the address of a request's server, so that rules and secrets apply to the
// address that is called. A leading placeholder takes an address with a path, any other a part of a host name.
// The text is what is wrong with the arguments.
func fillAddress(in contract.ToolInput) (contract.ToolInput, string) {
	c := in.Connection
	args, err := value.Parse(in.Arguments)
	if err != nil {
		return in, "the arguments are no JSON"
	}
	problem := ""
	filled := slot.ReplaceAllStringFunc(c.URL, func(m string) string {
		name := slot.FindStringSubmatch(m)[1]
		v, ok := args.Get(name)
		text := v.Spaced()
		switch {
		case !ok || text == "":
			problem = "the address has no value for " + name
		case strings.HasPrefix(c.URL, m) && !strings.HasPrefix(c.URL[len(m):], "://"):
			if urlProblem(text) != "" || strings.ContainsAny(text, "?#{}") {
				problem = "the value of " + name + " " + orPathProblem(urlProblem(text))
			}
			text = strings.TrimRight(text, "/")
		case !hostValue.MatchString(text):
			problem = "the value of " + name + " is no part of a server's name"
		}
		return text
	})
	if problem != "" {
		return in, problem
	}
	if wrong := urlProblem(filled); wrong != "" {
		return in, "the arguments make an address that " + wrong
	}
	u, err := url.Parse(filled)
	if err != nil {
		return in, "the arguments make no address"
	}
	base := strings.TrimRight(u.EscapedPath(), "/")
	c.URL = u.Scheme + "://" + u.Host
	c.Requests = append([]plan.Request(nil), c.Requests...)
	for i := range c.Requests {
		c.Requests[i].Path = base + c.Requests[i].Path
	}
	in.Connection = c
	return in, ""
}

// orPathProblem is what is wrong with an address that is one.
func orPathProblem(problem string) string {
	if problem == "" {
		return "has more than a server and a path"
	}
	return problem
}
