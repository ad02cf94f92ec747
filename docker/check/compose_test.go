package check

import (
	"context"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/compose-spec/compose-go/v2/loader"
	"github.com/compose-spec/compose-go/v2/types"
	"sigs.k8s.io/yaml"

	"weft/worker/config"
)

// project reads the compose file as docker compose does.
func project(t *testing.T) *types.Project {
	t.Helper()
	p, err := loader.LoadWithContext(context.Background(), types.ConfigDetails{
		WorkingDir:  "..",
		ConfigFiles: []types.ConfigFile{{Filename: "../compose.yaml"}},
		Environment: types.Mapping{},
	}, func(o *loader.Options) { o.SetProjectName("weft", true); o.Profiles = []string{"*"} })
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func TestComposeServices(t *testing.T) {
	p := project(t)
	names := slices.Sorted(maps.Keys(p.Services))
	want := []string{"codec", "postgres", "prometheus", "proxy", "schema", "serve-1", "serve-2", "setup", "starter", "temporal", "ui", "worker-1", "worker-2"}
	if !slices.Equal(names, want) {
		t.Errorf("services are %v, want %v", names, want)
	}
	for name, s := range p.Services {
		if s.Image == "" || strings.HasSuffix(s.Image, ":latest") && !strings.HasPrefix(s.Image, "weft/") {
			t.Errorf("%s: the image %q is not pinned", name, s.Image)
		}
		for _, port := range s.Ports {
			if port.HostIP != "127.0.0.1" {
				t.Errorf("%s: port %s is bound to %q, want 127.0.0.1", name, port.Published, port.HostIP)
			}
		}
		for _, v := range s.Volumes {
			if v.Type != types.VolumeTypeBind {
				continue
			}
			if _, err := os.Stat(v.Source); err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
		if strings.HasPrefix(s.Image, "weft/") && (!s.ReadOnly || !slices.Equal(s.CapDrop, []string{"ALL"})) {
			t.Errorf("%s is not confined: read only %v, dropped capabilities %v", name, s.ReadOnly, s.CapDrop)
		}
	}
}

// TestComposeBuildsEachImageOnce checks that no two services build the same image, which fails if both build
// at the same time, and that no service pulls a built image from a registry.
func TestComposeBuildsEachImageOnce(t *testing.T) {
	p := project(t)
	built := map[string][]string{}
	for name, s := range p.Services {
		switch own := strings.HasPrefix(s.Image, "weft/"); {
		case own && s.Build != nil:
			built[s.Image] = append(built[s.Image], name)
		case own && s.PullPolicy != types.PullPolicyNever:
			t.Errorf("%s would pull %s: its policy is %q", name, s.Image, s.PullPolicy)
		case own && built[s.Image] == nil:
			built[s.Image] = []string{}
		}
	}
	if len(built) != 2 {
		t.Errorf("images are %v, want two", built)
	}
	for image, by := range built {
		if len(by) != 1 || slices.Contains(p.Services[by[0]].Profiles, "run") {
			t.Errorf("%s is built by %v, want one service without a profile", image, by)
		}
	}
}

// settings loads the settings of a service's program.
func settings(t *testing.T, s types.ServiceConfig) (*config.Config, env) {
	t.Helper()
	e := env{"TEMPORAL_CONFIG_FILE": filepath.Join(t.TempDir(), "none.toml")}
	for k, v := range s.Environment {
		if v != nil {
			e[k] = *v
		}
	}
	cfg, err := config.Load(config.Options{Env: e})
	if err != nil {
		t.Fatalf("%s rejects its settings: %v", s.Name, err)
	}
	if _, err := cfg.OpenCodec(); err != nil {
		t.Errorf("%s rejects its keys: %v", s.Name, err)
	}
	return cfg, e
}

// TestComposeServers checks the path from this machine's ports to the HTTP servers and the codec server.
func TestComposeServers(t *testing.T) {
	p := project(t)
	token := *p.Services["proxy"].Environment["CODEC_TOKEN"]
	for _, name := range []string{"serve-1", "serve-2"} {
		s := p.Services[name]
		cfg, e := settings(t, s)
		tokens, err := cfg.Tokens()
		if err != nil || len(tokens) != 1 || len(cfg.Warnings) > 0 || e["TEMPORAL_ADDRESS"] != "temporal:7233" {
			t.Errorf("%s: tokens %d, %v, warnings %v", name, len(tokens), err, cfg.Warnings)
		}
		if want := []string{"serve", "-listen", "0.0.0.0:8765"}; !slices.Equal(s.Command, want) || len(s.Ports) > 0 {
			t.Errorf("%s: command %v and ports %v, want %v and none", name, s.Command, s.Ports, want)
		}
	}
	cfg, e := settings(t, p.Services["codec"])
	if _, err := cfg.CodecTokens(); err != nil || e["WEFT_CODEC_TOKENS"] != "proxy:"+token || !slices.Equal(cfg.Codec.Origins, []string{"http://127.0.0.1:8233"}) {
		t.Errorf("the codec server accepts %q from %v, %v; the proxy has %q", e["WEFT_CODEC_TOKENS"], cfg.Codec.Origins, err, token)
	}
	if at := p.Services["ui"].Environment["TEMPORAL_CODEC_ENDPOINT"]; at == nil || *at != "http://127.0.0.1:8766" {
		t.Errorf("the Web UI uses the codec server %v", at)
	}
	caddyfile, err := os.ReadFile("../Caddyfile")
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"{$SERVE_PORT:8765}", "{$SERVERS:serve-1:8765 serve-2:8765}", "{$CODEC_PORT:8766}", "{$CODEC:codec:8766}", "health_uri /health"} {
		if !strings.Contains(string(caddyfile), want) {
			t.Errorf("the proxy's configuration has no %s", want)
		}
	}
	ports := []string{}
	for _, port := range p.Services["proxy"].Ports {
		ports = append(ports, port.Published)
	}
	if want := []string{"8765", "8766"}; !slices.Equal(ports, want) {
		t.Errorf("the proxy's ports are %v, want %v", ports, want)
	}
}

func TestComposeWorkers(t *testing.T) {
	p := project(t)
	for _, name := range []string{"worker-1", "worker-2"} {
		s := p.Services[name]
		cfg, e := settings(t, s)
		if cfg.Worker.Slots != config.SlotsResources || len(cfg.Warnings) > 0 || cfg.Worker.Log != config.LogJSON || e["TEMPORAL_ADDRESS"] != "temporal:7233" {
			t.Errorf("%s: settings %+v, warnings %v", name, cfg.Worker, cfg.Warnings)
		}
		if s.StopGracePeriod == nil || time.Duration(*s.StopGracePeriod) <= cfg.Worker.StopTimeout {
			t.Errorf("%s is killed after %v, but its calls may run for %v", name, s.StopGracePeriod, cfg.Worker.StopTimeout)
		}
	}
}

// TestPrometheusTargets compares Prometheus' targets with the services and their ports.
func TestPrometheusTargets(t *testing.T) {
	raw, err := os.ReadFile("../prometheus.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var c struct {
		Global struct {
			Interval string `json:"scrape_interval"`
		} `json:"global"`
		Scrape []struct {
			Job    string `json:"job_name"`
			Static []struct {
				Targets []string `json:"targets"`
			} `json:"static_configs"`
		} `json:"scrape_configs"`
	}
	if err := yaml.UnmarshalStrict(raw, &c); err != nil {
		t.Fatal(err)
	}
	var targets []string
	for _, s := range c.Scrape {
		for _, static := range s.Static {
			targets = append(targets, static.Targets...)
		}
	}
	// The workers' port is the image's; see the Dockerfile.
	docker, err := os.ReadFile("../Dockerfile")
	if err != nil {
		t.Fatal(err)
	}
	if want := []string{"worker-1:9464", "worker-2:9464", "temporal:9090"}; !slices.Equal(targets, want) || !strings.Contains(string(docker), "WEFT_WORKER_METRICS_LISTEN=:9464") {
		t.Errorf("targets are %v, want %v", targets, want)
	}
	if e := project(t).Services["temporal"].Environment["PROMETHEUS_ENDPOINT"]; e == nil || *e != "0.0.0.0:9090" {
		t.Errorf("Temporal's metrics are at %v", e)
	}
}
