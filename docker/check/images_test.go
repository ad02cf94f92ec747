package check

import (
	"bytes"
	"debug/elf"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// maxImage is the maximum size of an image in bytes.
const maxImage = 64 << 20

// buildah runs buildah, or skips the test if it is not installed.
func buildah(t *testing.T, args ...string) (stdout, stderr string, err error) {
	t.Helper()
	if _, err := exec.LookPath("buildah"); err != nil {
		t.Skip("buildah is not installed: apt-get install buildah; the images are not looked at")
	}
	var out, errs bytes.Buffer
	cmd := exec.Command("buildah", args...)
	cmd.Stdout, cmd.Stderr = &out, &errs
	err = cmd.Run()
	return strings.TrimSpace(out.String()), errs.String(), err
}

// container creates a container of an image, or skips the test if make images has not built it.
func container(t *testing.T, program string) (name, version string) {
	t.Helper()
	version = os.Getenv("WEFT_IMAGES")
	if version == "" {
		t.Skip("WEFT_IMAGES is not set; make images builds the images and runs this")
	}
	name, errs, err := buildah(t, "from", "--pull-never", "weft/"+program+":"+version)
	if err != nil {
		t.Fatalf("%v: %s", err, errs)
	}
	t.Cleanup(func() { _, _, _ = buildah(t, "rm", name) })
	return name, version
}

func TestImages(t *testing.T) {
	for _, program := range []string{"worker", "starter"} {
		t.Run(program, func(t *testing.T) {
			name, version := container(t, program)
			out, errs, err := buildah(t, "run", "--isolation", "chroot", name, "--", "/"+program, "version")
			if err != nil || !strings.HasPrefix(out, "weft "+version+" ") {
				t.Errorf("version says %q, want %s and a revision: %v %s", out, version, err, errs)
			}
			checkConfig(t, name, program)
			checkReproducible(t, program, version)
			checkFiles(t, name, program)
		})
	}
}

// checkConfig checks an image's configuration.
func checkConfig(t *testing.T, name, program string) {
	t.Helper()
	raw, errs, err := buildah(t, "inspect", name)
	if err != nil {
		t.Fatalf("%v: %s", err, errs)
	}
	var c struct {
		Docker struct {
			Config struct {
				User        string
				Entrypoint  []string
				Healthcheck *struct{ Test []string }
			} `json:"config"`
		}
	}
	if err := json.Unmarshal([]byte(raw), &c); err != nil {
		t.Fatal(err)
	}
	got := c.Docker.Config
	if got.User != "65532:65532" || !slices.Equal(got.Entrypoint, []string{"/" + program}) {
		t.Errorf("entrypoint is %v, user %q", got.Entrypoint, got.User)
	}
	if program == "worker" && (got.Healthcheck == nil || !slices.Equal(got.Healthcheck.Test, []string{"CMD", "/worker", "health"})) {
		t.Errorf("health check is %+v", got.Healthcheck)
	}
}

// checkReproducible checks that an image has nothing that changes with each build of the same source: container
// ids, or layers with other dates.
func checkReproducible(t *testing.T, program, version string) {
	t.Helper()
	raw, errs, err := buildah(t, "inspect", "--type", "image", "weft/"+program+":"+version)
	if err != nil {
		t.Fatalf("%v: %s", err, errs)
	}
	var image struct{ Config string }
	var config struct {
		Created, Container, Parent string
		Config                     struct{ Hostname string }
		History                    []struct{ Created, Comment string }
	}
	if err := json.Unmarshal([]byte(raw), &image); err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal([]byte(image.Config), &config); err != nil {
		t.Fatal(err)
	}
	if config.Created == "" || config.Container+config.Parent+config.Config.Hostname != "" {
		t.Errorf("the image is of %q, made by the container %q, with the parent %q and the host %q", config.Created, config.Container, config.Parent, config.Config.Hostname)
	}
	for _, h := range config.History {
		if h.Created != config.Created || h.Comment != "" {
			t.Errorf("a layer is of %s and says %q, the image is of %s", h.Created, h.Comment, config.Created)
		}
	}
}

// checkFiles checks that an image has only a static program, certificates and the licence of each module in the program.
func checkFiles(t *testing.T, name, program string) {
	t.Helper()
	root, errs, err := buildah(t, "mount", name)
	if err != nil {
		t.Fatalf("%v: %s", err, errs)
	}
	defer func() { _, _, _ = buildah(t, "umount", name) }()
	var files, notices []string
	var size int64
	err = filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		rel, _ := filepath.Rel(root, path)
		notice, ok := strings.CutPrefix(rel, "THIRD_PARTY_NOTICES/")
		switch {
		case info.Size() == 0: // a container's run mounted something there
		case ok:
			notices = append(notices, notice)
		default:
			files = append(files, rel)
		}
		size += info.Size()
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if want := []string{"LICENSE", "etc/ssl/certs/ca-certificates.crt", program}; !slices.Equal(files, want) || size > maxImage {
		t.Errorf("the image has %v, %d bytes; want %v and at most %d", files, size, want, maxImage)
	}
	_, version := container(t, program)
	raw, err := os.ReadFile("../../bin/" + program + "-" + version + ".cdx.json")
	if err != nil {
		t.Fatal(err)
	}
	for _, module := range modules(t, raw) {
		dir := strings.Replace(module, "stdlib", "go", 1)
		if !unlicensed[module] && !slices.ContainsFunc(notices, func(n string) bool { return strings.HasPrefix(n, dir+"/") }) {
			t.Errorf("no licence of %s among %v", module, notices)
		}
	}
	f, err := elf.Open(filepath.Join(root, program))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if libs, err := f.ImportedLibraries(); err != nil && !errors.Is(err, elf.ErrNoSymbols) || len(libs) > 0 {
		t.Errorf("the program links %v, %v", libs, err)
	}
}

// unlicensed are modules without a licence file.
var unlicensed = map[string]bool{"github.com/nexus-rpc/nexus-proto-annotations": true}

// modules returns the modules of a bill of materials.
func modules(t *testing.T, raw []byte) []string {
	t.Helper()
	var bill struct {
		BOMFormat  string `json:"bomFormat"`
		Components []struct{ Name, Version, Purl string }
	}
	if err := json.Unmarshal(raw, &bill); err != nil || bill.BOMFormat != "CycloneDX" {
		t.Fatalf("%v: %.200s", err, raw)
	}
	var out []string
	for _, c := range bill.Components {
		if !strings.HasPrefix(c.Purl, "pkg:golang/"+strings.ToLower(c.Name)+"@") || c.Version == "" {
			t.Errorf("%+v", c)
		}
		out = append(out, c.Name)
	}
	return out
}

// TestBillOfMaterials checks the output of docker/sbom.sh for a program.
func TestBillOfMaterials(t *testing.T) {
	for _, tool := range []string{"bash", "jq"} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Skip(err)
		}
	}
	program := filepath.Join(t.TempDir(), "starter")
	if out, err := exec.Command("go", "-C", "../..", "build", "-o", program, "./starter").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	raw, err := exec.Command("../sbom.sh", program, "v1").Output()
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"go.temporal.io/sdk", "github.com/mark3labs/mcp-go", "stdlib"} {
		if got := modules(t, raw); !slices.Contains(got, want) {
			t.Errorf("%s is not among %v", want, got)
		}
	}
}

// TestImagesRun checks the exit codes and messages of the images' programs when what they need is missing.
func TestImagesRun(t *testing.T) {
	tests := map[string]struct {
		program string
		args    []string
		code    int
		want    string
	}{
		"worker without Temporal": {"worker", []string{}, 3, "no Temporal at 127.0.0.1:1"},
		"health without a worker": {"worker", []string{"health"}, 1, "no worker responds at :8086"},
		"missing flow":            {"starter", []string{"validate", "/none.json"}, 2, "/none.json"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			c, _ := container(t, tc.program)
			args := append([]string{"run", "--isolation", "chroot", "--env", "TEMPORAL_ADDRESS=127.0.0.1:1", c, "--", "/" + tc.program}, tc.args...)
			out, errs, err := buildah(t, args...)
			var exit *exec.ExitError
			if !errors.As(err, &exit) || exit.ExitCode() != tc.code || !strings.Contains(out+errs, tc.want) {
				t.Errorf("got %v, output %q %q, want exit code %d and %q", err, out, errs, tc.code, tc.want)
			}
		})
	}
}
