package programs

import (
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"testing"
)

// role is the variable that makes the test binary act as another program.
const role = "PROGRAMS_ROLE"

func TestMain(m *testing.M) {
	switch os.Getenv(role) {
	case "server":
		fmt.Println("warming up")
		fmt.Println(`ready {"address": "127.0.0.1:1"}`)
		for range 10_000 { // more than a pipe holds
			fmt.Println("a line of output that is not read any more, of a program with a lot of output")
		}
		return
	case "mute":
		fmt.Println("steady")
		fmt.Fprintln(os.Stderr, "no space left")
		return
	}
	os.Exit(m.Run())
}

// testProgram returns a command that runs the test binary in a role.
func testProgram(what string) *exec.Cmd {
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(CleanEnv(), role+"="+what)
	return cmd
}

func TestReady(t *testing.T) {
	var ready struct{ Address string }
	cmd := testProgram("server")
	Ready(t, cmd, &ready)
	if ready.Address != "127.0.0.1:1" {
		t.Errorf("ready = %+v", ready)
	}
	if err := cmd.Wait(); err != nil { // its output is read to the end
		t.Error(err)
	}
}

// failedTest records the failure of a test.
type failedTest struct {
	testing.TB
	text string
}

func (f *failedTest) Fatalf(format string, args ...any) {
	f.text = fmt.Sprintf(format, args...)
	runtime.Goexit()
}

func TestLineNotPrinted(t *testing.T) {
	f, ended := &failedTest{TB: t}, make(chan struct{})
	go func() {
		defer close(ended)
		StartAndReadLine(f, testProgram("mute"), "ready ")
	}()
	<-ended
	for _, want := range []string{`no line that begins with "ready "`, "no space left"} {
		if !strings.Contains(f.text, want) {
			t.Errorf("failure = %q, want it to contain %q", f.text, want)
		}
	}
}

func TestClean(t *testing.T) {
	for _, name := range []string{"WEFT_MODEL", "TEMPORAL_ADDRESS", "OLLAMA_HOST", "OPENAI_API_KEY", "OPENAI_API_KEY_FILE"} {
		t.Setenv(name, "x")
	}
	t.Setenv("PROGRAMS_KEPT", "x")
	env := CleanEnv()
	if i := slices.IndexFunc(env, func(e string) bool { return strings.HasSuffix(e, "=x") && e != "PROGRAMS_KEPT=x" }); i >= 0 {
		t.Errorf("environment contains %s", env[i])
	}
	if !slices.Contains(env, "PROGRAMS_KEPT=x") {
		t.Error("PROGRAMS_KEPT, which is not a setting, was removed")
	}
}
