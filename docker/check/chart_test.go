package check

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"helm.sh/helm/v3/pkg/chart/loader"
	"helm.sh/helm/v3/pkg/chartutil"
	"helm.sh/helm/v3/pkg/engine"
	"helm.sh/helm/v3/pkg/lint"
	"helm.sh/helm/v3/pkg/lint/support"
	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	"sigs.k8s.io/yaml"

	"weft/worker/config"
)

const chartDir = "../chart"

// object is a rendered document of any kind.
type object struct {
	APIVersion string         `json:"apiVersion"`
	Kind       string         `json:"kind"`
	Metadata   map[string]any `json:"metadata"`
	Spec       map[string]any `json:"spec"`
}

// release is the chart rendered for one set of values.
type release struct {
	deployment appsv1.Deployment
	// serve is the Deployment of starter serve.
	serve     appsv1.Deployment
	configMap corev1.ConfigMap
	// others are the remaining documents by kind.
	others map[string]string
}

// render renders the chart as helm template does. It returns Helm's error.
func render(t *testing.T, values string) (map[string]string, error) {
	t.Helper()
	c, err := loader.Load(chartDir)
	if err != nil {
		t.Fatal(err)
	}
	var v map[string]any
	if err := yaml.UnmarshalStrict([]byte(values), &v); err != nil {
		t.Fatal(err)
	}
	all, err := chartutil.ToRenderValues(c, v, chartutil.ReleaseOptions{Name: "prod", Namespace: "agents", IsInstall: true}, chartutil.DefaultCapabilities)
	if err != nil {
		return nil, err
	}
	return engine.Render(c, all)
}

// newRelease renders the chart and decodes the result strictly: a field that Kubernetes does
// not have is an error.
func newRelease(t *testing.T, values string) *release {
	t.Helper()
	files, err := render(t, values)
	if err != nil {
		t.Fatal(err)
	}
	r := &release{others: map[string]string{}}
	for _, name := range slices.Sorted(maps.Keys(files)) {
		if strings.HasSuffix(name, ".txt") {
			continue
		}
		for _, doc := range strings.Split(files[name], "\n---\n") {
			if strings.TrimSpace(doc) == "" {
				continue
			}
			var o object
			if err := yaml.Unmarshal([]byte(doc), &o); err != nil {
				t.Fatalf("%s: %v in\n%s", name, err, doc)
			}
			var into any
			switch o.Kind {
			case "Deployment":
				into = &r.deployment
				if name == "weft/templates/serve.yaml" {
					into = &r.serve
				}
			case "Service":
				into = &corev1.Service{}
			case "HorizontalPodAutoscaler":
				into = &autoscalingv2.HorizontalPodAutoscaler{}
			case "Ingress":
				into = &networkingv1.Ingress{}
			case "ConfigMap":
				into = &r.configMap
			case "ServiceAccount":
				into = &corev1.ServiceAccount{}
			case "PodDisruptionBudget":
				into = &policyv1.PodDisruptionBudget{}
			default:
				into = &o
			}
			if err := yaml.UnmarshalStrict([]byte(doc), into); err != nil {
				t.Errorf("%s: %v in\n%s", name, err, doc)
			}
			if name == "weft/templates/serve.yaml" {
				o.Kind = "Serve" + o.Kind
			}
			r.others[o.Kind] = doc
		}
	}
	return r
}

// env is a container's environment, with a placeholder for each secret.
type env map[string]string

func (e env) LookupEnv(name string) (string, bool) { v, ok := e[name]; return v, ok }

func (e env) Environ() []string {
	var out []string
	for k, v := range e {
		out = append(out, k+"="+v)
	}
	return out
}

// settings loads the settings of a release's worker.
func (r *release) settings(t *testing.T) (*config.Config, env) {
	t.Helper()
	return r.settingsOf(t, &r.deployment)
}

// settingsOf loads the settings of a Deployment's program.
func (r *release) settingsOf(t *testing.T, d *appsv1.Deployment) (*config.Config, env) {
	t.Helper()
	c := d.Spec.Template.Spec.Containers[0]
	e := env{"TEMPORAL_CONFIG_FILE": filepath.Join(t.TempDir(), "none.toml")}
	for _, v := range c.Env {
		e[v.Name] = v.Value
		if v.ValueFrom != nil {
			e[v.Name] = "secret"
		}
	}
	file := filepath.Join(t.TempDir(), "weft.yaml")
	if err := os.WriteFile(file, []byte(r.configMap.Data["weft.yaml"]), 0o600); err != nil {
		t.Fatal(err)
	}
	cfg, err := config.Load(config.Options{File: file, Env: e})
	if err != nil {
		t.Fatalf("the worker rejects its settings: %v", err)
	}
	if len(cfg.Warnings) > 0 {
		t.Errorf("warnings about the worker's settings: %v", cfg.Warnings)
	}
	return cfg, e
}

const plain = "temporal: {address: 'temporal-frontend.temporal.svc:7233'}\n"

func TestChartLint(t *testing.T) {
	linted := lint.AllWithKubeVersion(chartDir, map[string]any{"temporal": map[string]any{"address": "t:7233"}}, "agents", &chartutil.DefaultCapabilities.KubeVersion)
	for _, m := range linted.Messages {
		if m.Severity >= support.WarningSev {
			t.Error(m)
		}
	}
}

func TestChartOnCluster(t *testing.T) {
	r := newRelease(t, plain+"config: {limits: {max_steps: 50}, worker: {log: text}}\nsecrets: [models]\nstopSeconds: 90\n")
	cfg, e := r.settings(t)
	if cfg.Worker.Slots != config.SlotsResources || cfg.TaskQueue != "weft" || cfg.Limits.MaxSteps != 50 || cfg.Worker.Log != config.LogText || cfg.Worker.HealthListen != ":8086" || e["TEMPORAL_TLS"] != "" {
		t.Errorf("the worker's settings are %+v", cfg)
	}
	pod := r.deployment.Spec.Template.Spec
	if grace := *pod.TerminationGracePeriodSeconds; float64(grace) <= cfg.Worker.StopTimeout.Seconds() || cfg.Worker.StopTimeout.Seconds() != 90 {
		t.Errorf("the pod's grace period is %d s, the worker's stop timeout %v", grace, cfg.Worker.StopTimeout)
	}
	c := pod.Containers[0]
	if !*pod.SecurityContext.RunAsNonRoot || !*c.SecurityContext.ReadOnlyRootFilesystem || *c.SecurityContext.AllowPrivilegeEscalation || c.Image != "weft/worker:devel" {
		t.Errorf("the container is %+v", c)
	}
	if c.ReadinessProbe.HTTPGet.Path != "/readyz" || c.LivenessProbe.HTTPGet.Path != "/livez" || c.EnvFrom[0].SecretRef.Name != "models" || *r.deployment.Spec.Replicas != 2 {
		t.Errorf("the container is %+v", c)
	}
	for _, p := range c.Ports {
		if p.Name == "health" && p.ContainerPort != 8086 || p.Name == "metrics" && p.ContainerPort != 9464 {
			t.Errorf("the worker does not listen on port %+v", p)
		}
	}
	kinds := slices.Sorted(maps.Keys(r.others))
	if want := []string{"ConfigMap", "Deployment", "PodDisruptionBudget", "ServiceAccount"}; !slices.Equal(kinds, want) {
		t.Errorf("kinds are %v, want %v", kinds, want)
	}
	var pdb policyv1.PodDisruptionBudget
	if err := yaml.Unmarshal([]byte(r.others["PodDisruptionBudget"]), &pdb); err != nil || !maps.Equal(pdb.Spec.Selector.MatchLabels, r.deployment.Spec.Selector.MatchLabels) {
		t.Errorf("the disruption budget selects %v, %v", pdb.Spec.Selector, err)
	}
	for k, v := range r.deployment.Spec.Selector.MatchLabels {
		if r.deployment.Spec.Template.Labels[k] != v {
			t.Errorf("the pods do not have the label %s=%s", k, v)
		}
	}
}

func TestChartOnTemporalCloud(t *testing.T) {
	cloud := "temporal: {address: 'agents.a1b2c.tmprl.cloud:7233', namespace: agents.a1b2c, "
	tests := map[string]struct {
		values string
		// env is the environment that the worker needs; auth is what KEDA needs.
		env  map[string]string
		auth []string
	}{
		"by API key": {values: cloud + "apiKey: {secret: temporal, key: token}}\n",
			env: map[string]string{"TEMPORAL_API_KEY": "secret", "TEMPORAL_TLS": "true"}, auth: []string{"parameter: apiKey, name: \"temporal\", key: \"token\""}},
		"by certificate": {values: cloud + "tls: {secret: client, ca: true, serverName: front}}\n",
			env: map[string]string{"TEMPORAL_TLS": "true", "TEMPORAL_TLS_CLIENT_CERT_PATH": "/etc/weft/tls/tls.crt", "TEMPORAL_TLS_CLIENT_KEY_PATH": "/etc/weft/tls/tls.key",
				"TEMPORAL_TLS_SERVER_CA_CERT_PATH": "/etc/weft/tls/ca.crt", "TEMPORAL_TLS_SERVER_NAME": "front"},
			auth: []string{"parameter: cert, name: \"client\"", "parameter: key, name: \"client\"", "parameter: ca, name: \"client\""}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			r := newRelease(t, tc.values+"autoscaling: {enabled: true, minReplicas: 0, maxReplicas: 7, targetQueueSize: 3}\nmetrics: {podMonitor: true}\nflows: {configMap: flows}\nstore: {claim: payloads}\n")
			_, e := r.settings(t)
			for k, v := range tc.env {
				if e[k] != v {
					t.Errorf("%s is %q, want %q", k, e[k], v)
				}
			}
			if r.deployment.Spec.Replicas != nil {
				t.Error("the chart sets replicas, which KEDA controls")
			}
			for _, want := range []string{"endpoint: \"agents.a1b2c.tmprl.cloud:7233\"", "namespace: \"agents.a1b2c\"", "taskQueue: \"weft\"", "maxReplicaCount: 7", "targetQueueSize: \"3\"", "name: prod-weft"} {
				if !strings.Contains(r.others["ScaledObject"], want) {
					t.Errorf("no %q in\n%s", want, r.others["ScaledObject"])
				}
			}
			for _, want := range tc.auth {
				if !strings.Contains(r.others["TriggerAuthentication"], want) {
					t.Errorf("no %q in\n%s", want, r.others["TriggerAuthentication"])
				}
			}
			if r.others["PodMonitor"] == "" || e["WEFT_FLOWS_DIR"] != "/etc/weft/flows" || e["WEFT_STORE_DIR"] != "/var/lib/weft/store" {
				t.Errorf("kinds are %v, environment is %v", slices.Sorted(maps.Keys(r.others)), e)
			}
			mounted(t, &r.deployment.Spec.Template.Spec)
		})
	}
}

// TestChartVersions checks that the build id of the workers is the one whose backlog KEDA
// scales on.
func TestChartVersions(t *testing.T) {
	const scaled = "autoscaling: {enabled: true}\n"
	if r := newRelease(t, plain+scaled); strings.Contains(r.others["ScaledObject"], "workerDeployment") {
		t.Errorf("version of unversioned workers in\n%s", r.others["ScaledObject"])
	}
	r := newRelease(t, plain+scaled+"versioning: {deployment: agents, buildId: v1.2.0}\nconfig: {worker: {versioning: pinned}}\n")
	cfg, _ := r.settings(t)
	if v := cfg.Versioning(); v.Deployment != "agents" || v.BuildID != "v1.2.0" || v.Behavior != config.VersioningPinned {
		t.Errorf("the workers' version is %+v", v)
	}
	for _, want := range []string{"workerDeploymentName: \"agents\"\n", "workerDeploymentBuildId: \"v1.2.0\"\n"} {
		if !strings.Contains(r.others["ScaledObject"], want) {
			t.Errorf("no %q in\n%s", want, r.others["ScaledObject"])
		}
	}
}

func TestChartServe(t *testing.T) {
	r := newRelease(t, plain+`
taskQueue: agents
secrets: [keys]
store: {claim: payloads}
flows: {configMap: flows}
serve:
  enabled: true
  tokens: {secret: clients}
  autoscaling: {enabled: true, maxReplicas: 5}
  ingress: {host: weft.example.com, tlsSecret: weft-tls}
`)
	if r.deployment.Name != "prod-weft" || r.serve.Name != "prod-weft-serve" {
		t.Fatalf("the Deployments are %q and %q", r.deployment.Name, r.serve.Name)
	}
	cfg, e := r.settingsOf(t, &r.serve)
	if cfg.TaskQueue != "agents" || e["TEMPORAL_ADDRESS"] == "" || e["WEFT_SERVE_TOKENS"] != "secret" || cfg.Store.Dir == "" || cfg.Flows.Dir == "" {
		t.Errorf("the server's settings are %+v, its environment %v", cfg, e)
	}
	pod := r.serve.Spec.Template.Spec
	mounted(t, &pod)
	c := pod.Containers[0]
	if !*pod.SecurityContext.RunAsNonRoot || !*c.SecurityContext.ReadOnlyRootFilesystem || c.Image != "weft/starter:devel" || c.Ports[0].ContainerPort != 8765 ||
		c.ReadinessProbe.HTTPGet.Path != "/health" || c.LivenessProbe.TCPSocket == nil || c.EnvFrom[0].SecretRef.Name != "keys" {
		t.Errorf("the container is %+v", c)
	}
	if want := []string{"serve", "-listen", "0.0.0.0:8765"}; !slices.Equal(c.Args, want) || e["WEFT_CONFIG"] != c.VolumeMounts[0].MountPath {
		t.Errorf("the arguments are %v, the settings %s in %s", c.Args, e["WEFT_CONFIG"], c.VolumeMounts[0].MountPath)
	}
	// The server gives open requests ten seconds when it stops.
	if wait := c.Lifecycle.PreStop.Sleep.Seconds + 10; *pod.TerminationGracePeriodSeconds <= wait || r.serve.Spec.Replicas != nil {
		t.Errorf("the pod's grace period is %d s, it needs more than %d", *pod.TerminationGracePeriodSeconds, wait)
	}
	var service corev1.Service
	var pdb policyv1.PodDisruptionBudget
	var hpa autoscalingv2.HorizontalPodAutoscaler
	var ingress networkingv1.Ingress
	for kind, into := range map[string]any{"Service": &service, "PodDisruptionBudget": &pdb, "HorizontalPodAutoscaler": &hpa, "Ingress": &ingress} {
		if err := yaml.UnmarshalStrict([]byte(r.others["Serve"+kind]), into); err != nil {
			t.Errorf("%s: %v", kind, err)
		}
	}
	own := r.serve.Spec.Selector.MatchLabels
	if !maps.Equal(service.Spec.Selector, own) || !maps.Equal(pdb.Spec.Selector.MatchLabels, own) || maps.Equal(own, r.deployment.Spec.Selector.MatchLabels) {
		t.Errorf("the server's pods are %v, the Service is for %v, the budget for %v", own, service.Spec.Selector, pdb.Spec.Selector)
	}
	for k, v := range own {
		if r.serve.Spec.Template.Labels[k] != v {
			t.Errorf("the pods do not have the label %s=%s", k, v)
		}
	}
	if hpa.Spec.ScaleTargetRef.Name != r.serve.Name || *hpa.Spec.MinReplicas != 2 || hpa.Spec.MaxReplicas != 5 {
		t.Errorf("the autoscaler is %+v", hpa.Spec)
	}
	if at := ingress.Spec.Rules[0]; at.Host != "weft.example.com" || at.HTTP.Paths[0].Backend.Service.Name != service.Name || ingress.Spec.TLS[0].SecretName != "weft-tls" {
		t.Errorf("the ingress is %+v", ingress.Spec)
	}
}

// mounted checks that each volume is mounted and each mount has a volume.
func mounted(t *testing.T, pod *corev1.PodSpec) {
	t.Helper()
	var volumes, mounts []string
	for _, v := range pod.Volumes {
		volumes = append(volumes, v.Name)
	}
	for _, m := range pod.Containers[0].VolumeMounts {
		mounts = append(mounts, m.Name)
	}
	if !slices.Equal(volumes, mounts) {
		t.Errorf("volumes are %v, mounts %v", volumes, mounts)
	}
}

func TestChartRejectsInvalidValues(t *testing.T) {
	tests := map[string]struct{ values, want string }{
		"no address":                      {"{}", "set temporal.address to host:port of Temporal's frontend"},
		"address that is a URL":           {"temporal: {address: 'https://t:7233'}", "/temporal/address"},
		"misspelt value":                  {plain + "replica: 3", "replica"},
		"setting that the chart controls": {plain + "config: {worker: {stop_timeout: 5m}}", "stop_timeout"},
		"server without tokens":           {plain + "serve: {enabled: true}", "set serve.tokens.secret to the Secret with the clients' tokens"},
		"invalid number":                  {plain + "replicas: many", "replicas"},
		"deployment without a build":      {plain + "versioning: {deployment: agents}", "set versioning.buildId to the build"},
		"build without a deployment":      {plain + "versioning: {buildId: v1}", "set versioning.deployment to the name"},
		"deployment with a dot":           {plain + "versioning: {deployment: a.b, buildId: v1}", "/versioning/deployment"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			if _, err := render(t, tc.values); err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("error is %v, want %q in it", err, tc.want)
			}
		})
	}
}
