// Package harness contains shared helpers of the test packages: embedded servers, workers in the test's
// process and in separate processes, runs in Temporal's test environment, and flows.
package harness

import (
	"encoding/json"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"testing"

	"go.temporal.io/sdk/log"
	"go.temporal.io/sdk/temporal"

	"weft/activities/contract"
	"weft/activities/llm"
)

// NoLog is a logger that writes nothing.
var NoLog = log.NewStructuredLogger(slog.New(slog.DiscardHandler))

// FailureClass returns a failure's class, or "" for nil.
func FailureClass(f *contract.Failure) string {
	if f == nil {
		return ""
	}
	return f.Class
}

// ErrorType returns the type of an application error, the text of any other error, or "" for nil.
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

// ResultText returns a result's text, or its data.
func ResultText(r *contract.RunResult) string {
	if r.ResultText != nil {
		return *r.ResultText
	}
	return string(r.ResultData)
}

// MessageText returns a message's text, including its parts.
func MessageText(m contract.Message) string {
	out := m.Text
	for _, part := range m.Parts {
		out += part.Shown(part.Text)
	}
	return out
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

// DecodeJSON decodes JSON into v.
func DecodeJSON(t *testing.T, raw []byte, v any) {
	t.Helper()
	if err := json.Unmarshal(raw, v); err != nil {
		t.Fatal(err)
	}
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

// SpecFile reads a file of the specifications' folder next to the project, or skips the test.
func SpecFile(t *testing.T, path string) []byte {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join("..", "..", "..", "shared", filepath.FromSlash(path)))
	if err != nil {
		t.Skipf("../shared/%s does not exist", path)
	}
	return raw
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
