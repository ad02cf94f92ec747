package config

import (
	"weft/specadapter"
	"weft/specadapter/source"
)

// Reading returns the options for reading a flow's document with this configuration. An empty dialect is
// detected, an empty profile is the default one.
func (c *Config) Reading(dialect, profile string) specadapter.Options {
	o := specadapter.Options{
		Dialect: dialect, Profile: profile, Bounds: c.Bounds(), Policy: c.Timeouts.policy(),
		Host: source.Host{UnboundTools: map[string]bool{}, Connections: map[string]bool{}},
	}
	for name := range c.Tools {
		o.UnboundTools[name] = true
	}
	for name := range c.Activities {
		o.UnboundTools[name] = true
	}
	for id := range c.Connections {
		o.Connections[id] = true
	}
	return o
}
