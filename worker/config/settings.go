package config

import (
	"time"

	"weft/activities/contract"
	"weft/workflows/plan"
)

// setting is a single value: where it goes and what it may be.
type setting struct {
	key  string
	take func(l *loader, key string)
}

// settings is the table of all single values. Sections keyed by an author's names are in
// records.go.
var settings = []setting{
	{"task_queue", text(func(c *Config) *string { return &c.TaskQueue }, contract.TaskQueue)},
	{"model", text(func(c *Config) *string { return &c.Model }, "")},
	{"allow_private", boolean(func(c *Config) *bool { return &c.AllowPrivate })},
	{"allow_hosts", list(func(c *Config) *[]string { return &c.AllowHosts })},

	{"limits.max_steps", number(func(c *Config) *int { return &c.Limits.MaxSteps }, plan.DefaultLimits.MaxSteps, 1, 1_000_000)},
	{"limits.max_state_bytes", number(func(c *Config) *int { return &c.Limits.MaxStateBytes }, plan.DefaultLimits.MaxStateBytes, 1, 1<<30)},
	{"limits.max_depth", number(func(c *Config) *int { return &c.Limits.MaxDepth }, plan.DefaultLimits.MaxDepth, 1, 100)},
	{"limits.filter_bytes", number(func(c *Config) *int { return &c.Limits.FilterBytes }, plan.DefaultLimits.FilterBytes, 1, 1<<30)},

	{"timeouts.model", seconds(func(c *Config) *int { return &c.Policy.ModelSeconds }, plan.DefaultPolicy.ModelSeconds)},
	{"timeouts.tool", seconds(func(c *Config) *int { return &c.Policy.ToolSeconds }, plan.DefaultPolicy.ToolSeconds)},
	{"timeouts.heartbeat", seconds(func(c *Config) *int { return &c.Policy.HeartbeatSeconds }, plan.DefaultPolicy.HeartbeatSeconds)},
	{"timeouts.retry", seconds(func(c *Config) *int { return &c.Policy.RetrySeconds }, plan.DefaultPolicy.RetrySeconds)},
	{"timeouts.first_retry", units(func(c *Config) *int { return &c.Policy.FirstRetryMillis }, plan.DefaultPolicy.FirstRetryMillis, time.Millisecond)},

	{"worker.activities", number(func(c *Config) *int { return &c.Worker.Activities }, 200, 1, 100_000)},
	{"worker.workflow_tasks", number(func(c *Config) *int { return &c.Worker.WorkflowTasks }, 100, 2, 100_000)},
	{"worker.sticky_cache", number(func(c *Config) *int { return &c.Worker.StickyCache }, 2_000, 1, 1_000_000)},
	{"worker.stop_timeout", span(func(c *Config) *time.Duration { return &c.Worker.StopTimeout }, 30*time.Second, 0)},
}

// records is the table of sections keyed by an author's names.
var records = []record{
	section[Provider]{"providers", func(c *Config) map[string]Provider { return c.Providers }, []field[Provider]{
		{"kind", one(func(p *Provider) *string { return &p.Kind })},
		{"base_url", one(func(p *Provider) *string { return &p.BaseURL })},
		{"key_env", one(func(p *Provider) *string { return &p.KeyEnv })},
		{"headers", named(func(p *Provider) *map[string]string { return &p.Headers })},
		{"proxy", one(func(p *Provider) *string { return &p.Proxy })},
		{"unary", yes(func(p *Provider) *bool { return &p.Unary })},
		{"first_seconds", count(func(p *Provider) *int { return &p.FirstSeconds })},
		{"idle_seconds", count(func(p *Provider) *int { return &p.IdleSeconds })},
		{"max_body_bytes", count(func(p *Provider) *int { return &p.MaxBodyBytes })},
	}},
	section[Connection]{"connections", func(c *Config) map[string]Connection { return c.Connections }, []field[Connection]{
		{"transport", one(func(c *Connection) *string { return &c.Transport })},
		{"url", one(func(c *Connection) *string { return &c.URL })},
		{"headers", named(func(c *Connection) *map[string]string { return &c.Headers })},
		{"command", one(func(c *Connection) *string { return &c.Command })},
		{"args", many(func(c *Connection) *[]string { return &c.Args })},
		{"env", named(func(c *Connection) *map[string]string { return &c.Env })},
		{"dir", one(func(c *Connection) *string { return &c.Dir })},
		{"timeout_seconds", count(func(c *Connection) *int { return &c.TimeoutSeconds })},
		{"connect_seconds", count(func(c *Connection) *int { return &c.ConnectSeconds })},
		{"retry", one(func(c *Connection) *string { return &c.Retry })},
		{"ca_file", one(func(c *Connection) *string { return &c.CAFile })},
		{"cert_file", one(func(c *Connection) *string { return &c.CertFile })},
		{"key_file", one(func(c *Connection) *string { return &c.KeyFile })},
		{"proxy", one(func(c *Connection) *string { return &c.Proxy })},
	}},
	tools{},
}
