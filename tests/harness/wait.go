package harness

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/temporal"

	"weft/activities/contract"
	"weft/activities/llm"
)

// FailureClass is a failure's class, or "" for nil.
func FailureClass(f *contract.Failure) string {
	if f == nil {
		return ""
	}
	return f.Class
}

// MessageText is a message's text with its parts.
func MessageText(m contract.Message) string {
	out := m.Text
	for _, part := range m.Parts {
		out += part.Text
	}
	return out
}

// SpecFile reads a file of the specification's folder beside the project, or skips.
func SpecFile(t *testing.T, path string) []byte {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join("..", "..", "..", "shared", filepath.FromSlash(path)))
	if err != nil {
		t.Skipf("../shared/%s is not there", path)
	}
	return raw
}

// WaitFor polls until something holds.
func WaitFor(t testing.TB, what string, ok func() bool) {
	t.Helper()
	for range 6000 {
		if ok() {
			return
		}
		time.Sleep(20 * time.Millisecond)
	}
	t.Fatalf("waited two minutes for %s", what)
}

// ResultText is a result's text, or its data.
func ResultText(r *contract.RunResult) string {
	if r.ResultText != nil {
		return *r.ResultText
	}
	return string(r.ResultData)
}

// ReadFile returns a file's text.
func ReadFile(t *testing.T, file string) string {
	t.Helper()
	raw, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}

// DecodeJSON decodes JSON into v.
func DecodeJSON(t *testing.T, raw []byte, v any) {
	t.Helper()
	if err := json.Unmarshal(raw, v); err != nil {
		t.Fatal(err)
	}
}

// NoLog drops Temporal's log.
type NoLog struct{}

// ErrorType is an application error's type, another error's text, or "" for nil.
func ErrorType(err error) string {
	if err == nil {
		return ""
	}
	var app *temporal.ApplicationError
	if errors.As(err, &app) {
		return app.Type()
	}
	return err.Error()
}

// EncodeJSON encodes v as JSON.
func EncodeJSON(t *testing.T, v any) []byte {
	t.Helper()
	raw, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

// Dial connects to a server until the test ends.
func Dial(t testing.TB, address string) client.Client {
	t.Helper()
	c, err := client.Dial(client.Options{HostPort: address, Logger: NoLog{}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

// Result waits for a run's result.
func Result(t testing.TB, run client.WorkflowRun) (*contract.RunResult, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Minute) // machines are busy
	defer cancel()
	var out contract.RunResult
	if err := run.Get(ctx, &out); err != nil {
		return nil, err
	}
	return &out, nil
}

// Script reads a script for a run's input.
func Script(t testing.TB, text string) json.RawMessage {
	t.Helper()
	raw, err := llm.ParseScript("test.script", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return raw
}
