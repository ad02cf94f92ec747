package config

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"net/url"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"weft/activities/textutil"

	"go.temporal.io/sdk/client"
)

// Shown is a setting in force. Value never contains a secret.
type Shown struct {
	Key, Value string
	// Origin is "default", file:line:column, a variable or a flag.
	Origin string
}

// set stands for a secret, unset for an empty value.
const (
	set   = "(set)"
	unset = "-"
)

// Shown lists all settings in force: single values, configured sections, keys of providers, and the
// address of Temporal. The error is [Problems].
func (c *Config) Shown() ([]Shown, error) {
	var out []Shown
	all := reflect.ValueOf(c).Elem()
	for _, n := range schema.leaves() {
		v := all.FieldByIndex(n.index)
		if of, ok := measured[n.key]; ok {
			v = reflect.ValueOf(of(c))
		}
		out = append(out, Shown{n.key, cmp.Or(n.setting.show(v), unset), c.originOf(n.key)})
	}
	for _, r := range schema.records() {
		out = append(out, c.recordShown(r, all.FieldByIndex(r.index))...)
	}
	out = append(out, c.keysShown()...)
	out = append(out, c.codecShown()...)
	temporal, err := c.temporalShown()
	return append(out, temporal...), err
}

// recordShown lists what was given in a section of the operator's names; defaults are left out.
func (c *Config) recordShown(r *node, entries reflect.Value) []Shown {
	var out []Shown
	keys := entries.MapKeys()
	slices.SortFunc(keys, func(a, b reflect.Value) int { return cmp.Compare(a.String(), b.String()) })
	for _, name := range keys {
		for _, n := range r.fields() {
			key, v := r.name+"."+name.String(), entries.MapIndex(name)
			if n != r.each {
				key, v = key+"."+n.name, v.FieldByIndex(n.index)
			}
			switch from := c.originOf(key); {
			case c.origin[key] == "":
			case v.Kind() == reflect.Map:
				texts := v.Interface().(map[string]string)
				for _, of := range slices.Sorted(maps.Keys(texts)) {
					out = append(out, Shown{key + "." + of, maskText(texts[of]), from})
				}
			default:
				out = append(out, Shown{key, n.setting.show(v), from})
			}
		}
	}
	return out
}

// show is a value as the file would have it, without secrets.
func (s *setting) show(v reflect.Value) string {
	switch v := reflect.Indirect(v).Interface().(type) {
	case string:
		switch s.kind {
		case "url":
			return maskURL(v)
		case "secret":
			return maskText(v)
		}
		return v
	case []string:
		if s.named {
			return strings.Join(maskArgs(v), " ")
		}
		return strings.Join(v, ",")
	case time.Duration:
		return textutil.Duration(v)
	case float64:
		return strconv.FormatFloat(v, 'f', -1, 64)
	default:
		return fmt.Sprint(v)
	}
}

func (c *Config) originOf(key string) string {
	switch from := c.origin[key]; {
	case from == "":
		return "default"
	case from == originAuthor:
		return from
	case strings.HasPrefix(from, "-"):
		return "flag " + from
	case strings.Contains(from, ":"):
		return from
	default:
		return "variable " + from
	}
}

// keysShown lists the providers whose key is set, with its origin.
func (c *Config) keysShown() []Shown {
	settings, _ := c.LLM() // errors of secrets are reported where they are used
	var out []Shown
	for _, name := range c.Keys() {
		out = append(out, Shown{"providers." + name + " key", set, c.secretOrigin(settings.Providers[name].KeyName)})
	}
	return out
}

func (c *Config) temporalShown() ([]Shown, error) {
	options, _, err := c.temporal()
	if err != nil {
		return nil, err
	}
	secured, key := "off", unset
	if options.ConnectionOptions.TLS != nil {
		secured = "on"
	}
	if options.Credentials != nil {
		key = set
	}
	var out []Shown
	for _, v := range []struct{ key, value, def, variable string }{
		{"address", options.HostPort, "127.0.0.1:7233", "TEMPORAL_ADDRESS"},
		{"namespace", options.Namespace, client.DefaultNamespace, "TEMPORAL_NAMESPACE"},
		{"api_key", key, unset, "TEMPORAL_API_KEY"},
		{"tls", secured, "off", "TEMPORAL_TLS"},
	} {
		from := "Temporal's configuration file"
		if c.variable(v.variable) != "" {
			from = "variable " + v.variable
		} else if v.value == v.def {
			from = "default"
		} else if v.key == "tls" {
			from = "TEMPORAL_TLS_…, an API key or Temporal's configuration file"
		}
		out = append(out, Shown{"temporal " + v.key, v.value, from})
	}
	return out, nil
}

// Print writes settings as a table.
func Print(w io.Writer, list []Shown) {
	columns := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(columns, "SETTING\tVALUE\tORIGIN")
	for _, s := range list {
		fmt.Fprintf(columns, "%s\t%s\t%s\n", line(s.Key), line(s.Value), line(s.Origin))
	}
	columns.Flush()
}

func line(s string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f {
			return ' '
		}
		return r
	}, s)
}

// maskText keeps references to variables in a value, and hides the rest.
func maskText(s string) string {
	refs := reference.FindAllString(s, -1)
	switch {
	case s == "":
		return unset
	case len(refs) == 0:
		return set
	}
	for _, scheme := range []string{"Bearer ", "Basic "} {
		if s == scheme+refs[0] {
			return s
		}
	}
	if s == strings.Join(refs, "") {
		return s
	}
	return strings.Join(refs, " ") + " and more"
}

// maskURL hides a URL's user and the values of its query.
func maskURL(s string) string {
	u, err := url.Parse(s)
	if err != nil {
		return set
	}
	if u.User != nil {
		u.User = url.User("hidden")
	}
	if u.RawQuery != "" {
		u.RawQuery = "hidden"
	}
	return u.String()
}

var secretArg = regexp.MustCompile(`(?i)(token|secret|passw|key|auth|credential)`)

// maskArgs hides probable secrets among a program's arguments.
func maskArgs(in []string) []string {
	out := make([]string, len(in))
	for i, arg := range in {
		name, _, assigned := strings.Cut(arg, "=")
		switch {
		case assigned && secretArg.MatchString(name):
			out[i] = name + "=***"
		case i > 0 && strings.HasPrefix(in[i-1], "-") && !strings.Contains(in[i-1], "=") && secretArg.MatchString(in[i-1]):
			out[i] = "***"
		case strings.Contains(arg, "://"):
			out[i] = maskURL(arg)
		default:
			out[i] = arg
		}
	}
	return out
}
