package main

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"weft/tests/programs"
)

// TestEndToEndInlineSecrets runs testdata/lend: documents that contain secrets, with and without -dev.
// One server is both model and service; it appends the headers that it receives to the file seen.
func TestEndToEndInlineSecrets(t *testing.T) {
	t.Parallel()
	path := programs.Path(t, "WEFT_DEVSERVER")
	testscript.Run(t, testscript.Params{
		Dir: "testdata/lend", RequireExplicitExec: true, RequireUniqueNames: true,
		Setup: func(env *testscript.Env) error {
			var mu sync.Mutex
			srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				mu.Lock()
				defer mu.Unlock()
				f, err := os.OpenFile(filepath.Join(env.WorkDir, "seen"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
				if err != nil {
					t.Error(err)
					return
				}
				defer f.Close()
				fmt.Fprintln(f, r.URL.Path, r.Header.Get("Authorization"))
				w.Header().Set("Content-Type", "application/json")
				if strings.HasSuffix(r.URL.Path, "/chat/completions") {
					fmt.Fprint(w, `{"choices":[{"index":0,"finish_reason":"stop","message":{"role":"assistant","content":"fine words"}}],"usage":{"prompt_tokens":1,"completion_tokens":1}}`)
					return
				}
				fmt.Fprintf(w, `{"order": "you are %s"}`, r.Header.Get("Authorization"))
			}))
			env.Defer(srv.Close)
			env.Setenv("SERVER", srv.URL)
			env.Setenv("TEMPORAL_ADDRESS", "127.0.0.1:1")
			env.Setenv("TEMPORAL_CONFIG_FILE", env.WorkDir+"/no-temporal.toml")
			env.Setenv("XDG_STATE_HOME", env.WorkDir+"/state")
			env.Setenv("WEFT_WORKER_STOP_TIMEOUT", "1s")
			env.Setenv("PATH", env.Getenv("PATH")+string(os.PathListSeparator)+filepath.Dir(path))
			return nil
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){"exits": exits, "freed": freed},
	})
}
