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

// role is the variable by which this test's program is another one.
const role = "PROGRAMS_ROLE"

func TestMain(m *testing.M) {
	switch os.Getenv(role) {
	case "server":
		fmt.Println("warming up")
		fmt.Println(`ready {"address": "127.0.0.1:1"}`)
		for range 10_000 { // more than a pipe holds
			fmt.Println("a line of a program that has much to say, though nobody asks it any more")
		}
		return
	case "mute":
		fmt.Println("steady")
		fmt.Fprintln(os.Stderr, "there is no room")
		return
	}
	os.Exit(m.Run())
}

// as is this test's program in a role.
func as(what string) *exec.Cmd {
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(Clean(), role+"="+what)
	return cmd
}

func TestReadyReadsTheLine(t *testing.T) {
	var ready struct{ Address string }
	cmd := as("server")
	Ready(t, cmd, &ready)
	if ready.Address != "127.0.0.1:1" {
		t.Errorf("ready is %+v", ready)
	}
	if err := cmd.Wait(); err != nil { // it does not stand still
		t.Error(err)
	}
}

// failing is a test that may fail.
type failing struct {
	testing.TB
	text string
}

func (f *failing) Fatalf(format string, args ...any) {
	f.text = fmt.Sprintf(format, args...)
	runtime.Goexit()
}

func TestAProgramThatIsNeverReadyFailsTheTest(t *testing.T) {
	f, ended := &failing{TB: t}, make(chan struct{})
	go func() {
		defer close(ended)
		Line(f, as("mute"), "ready ")
	}()
	<-ended
	for _, want := range []string{`no line that begins with "ready "`, "there is no room"} {
		if !strings.Contains(f.text, want) {
			t.Errorf("it says %q, want %q in it", f.text, want)
		}
	}
}

func TestCleanLeavesSettingsOut(t *testing.T) {
	for _, name := range []string{"WEFT_MODEL", "TEMPORAL_ADDRESS", "OLLAMA_HOST", "OPENAI_API_KEY", "OPENAI_API_KEY_FILE"} {
		t.Setenv(name, "x")
	}
	t.Setenv("PROGRAMS_KEPT", "x")
	env := Clean()
	if i := slices.IndexFunc(env, func(e string) bool { return strings.HasSuffix(e, "=x") && e != "PROGRAMS_KEPT=x" }); i >= 0 {
		t.Errorf("%s is left", env[i])
	}
	if !slices.Contains(env, "PROGRAMS_KEPT=x") {
		t.Error("what is no setting is gone")
	}
}
