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
	want := []string{"postgres", "prometheus", "schema", "setup", "starter", "temporal", "ui", "worker-1", "worker-2"}
	if !slices.Equal(names, want) {
		t.Errorf("services are %v, want %v", names, want)
	}
	for name, s := range p.Services {
		if s.Image == "" || strings.HasSuffix(s.Image, ":latest") && !strings.HasPrefix(s.Image, "weft/") {
			t.Errorf("%s: the image %q is not pinned", name, s.Image)
		}
		for _, port := range s.Ports {
			if port.HostIP != "127.0.0.1" {
				t.Errorf("%s: port %s is bound to %q, want 127.0.0.1 alone", name, port.Published, port.HostIP)
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

func TestComposeWorkers(t *testing.T) {
	p := project(t)
	for _, name := range []string{"worker-1", "worker-2"} {
		s := p.Services[name]
		e := env{"TEMPORAL_CONFIG_FILE": filepath.Join(t.TempDir(), "none.toml")}
		for k, v := range s.Environment {
			if v != nil {
				e[k] = *v
			}
		}
		cfg, err := config.Load(config.Options{Env: e})
		if err != nil {
			t.Fatalf("%s refuses its settings: %v", name, err)
		}
		if len(cfg.Warnings) > 0 || cfg.Worker.Log != config.LogJSON || e["TEMPORAL_ADDRESS"] != "temporal:7233" {
			t.Errorf("%s: settings %+v, warnings %v", name, cfg.Worker, cfg.Warnings)
		}
		if s.StopGracePeriod == nil || time.Duration(*s.StopGracePeriod) <= cfg.Worker.StopTimeout {
			t.Errorf("%s is killed after %v, its calls may go on for %v", name, s.StopGracePeriod, cfg.Worker.StopTimeout)
		}
	}
}

// TestPrometheusReadsWhatThereIs compares the targets with the services and their ports.
func TestPrometheusReadsWhatThereIs(t *testing.T) {
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
		t.Errorf("Temporal gives its metrics at %v", e)
	}
}
