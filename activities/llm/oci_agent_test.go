package llm

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"weft/activities/contract"
)

// fakeOCIAgents is a fake of OCI's agent service that verifies signatures.
type fakeOCIAgents struct {
	t        *testing.T
	sessions int
	messages []string
	answer   string
	status   int
}

func (f *fakeOCIAgents) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err == nil {
		_, err = verify(r, body, &ociKey().PublicKey)
	}
	if err != nil {
		f.t.Errorf("%s: %v", r.URL.Path, err)
	}
	const endpoint = "/20240531/agentEndpoints/ocid1.genaiagentendpoint.oc1..e"
	switch r.URL.Path {
	case endpoint + "/sessions":
		f.sessions++
		fmt.Fprintf(w, `{"id":"s%d","timeCreated":"2026-01-01T00:00:00Z"}`, f.sessions)
	case endpoint + "/actions/chat":
		var in struct {
			Text    string `json:"userMessage"`
			Session string `json:"sessionId"`
			Stream  *bool  `json:"shouldStream"`
		}
		if json.Unmarshal(body, &in) != nil || in.Stream == nil || *in.Stream {
			f.t.Errorf("the request is %s", body)
		}
		f.messages = append(f.messages, in.Session+" "+in.Text)
		if f.status != 0 {
			http.Error(w, `{"code":"TooManyRequests","message":"slowly"}`, f.status)
			return
		}
		fmt.Fprint(w, f.answer)
	default:
		http.NotFound(w, r)
	}
}

// TestOCIAgent checks that an OCI agent receives only new messages, in one session per conversation.
func TestOCIAgent(t *testing.T) {
	fake := &fakeOCIAgents{t: t, answer: `{"message":{"role":"AGENT","content":{"text":"Sunny"}}}`}
	srv := httptest.NewServer(fake)
	defer srv.Close()
	models, err := Open(Settings{Providers: map[string]ProviderSettings{"oci": {BaseURL: srv.URL, AuthFile: ociConfig(t), Compartment: "ocid1.compartment.oc1..c"}}})
	if err != nil {
		t.Fatal(err)
	}
	conversation := []contract.Message{{Role: contract.RoleAssistant, Text: "Good morning."}, {Role: contract.RoleUser, Text: "Weather?"}}
	ask := func() (*Answer, error) {
		return models.Generate(context.Background(), "oci/agent/ocid1.genaiagentendpoint.oc1..e", newCall(&Call{}, transcriptOf("", conversation...), nil))
	}
	first, err := ask()
	if err != nil || first.Message.Text != "Sunny" || first.Stop != "stop" {
		t.Fatalf("%+v, %v", first, err)
	}
	conversation = append(conversation, first.Message, contract.Message{Role: contract.RoleUser, Text: "Tomorrow?"})
	if _, err = ask(); err != nil {
		t.Fatal(err)
	}
	if want := "[s1 Weather? s1 Tomorrow?]"; fmt.Sprint(fake.messages) != want || fake.sessions != 1 {
		t.Errorf("messages %v in %d sessions, want %s", fake.messages, fake.sessions, want)
	}
	fake.answer = `{"message":{"content":{"text":""}},"requiredActions":[{"requiredActionType":"FUNCTION_CALLING_REQUIRED_ACTION"}]}`
	if _, err = ask(); err == nil || contract.FailureOf(err).Class != contract.ClassBadRequest || !strings.Contains(err.Error(), "requiredActions") {
		t.Errorf("an agent that requires an action: %v", err)
	}
	fake.status = http.StatusTooManyRequests
	if _, err = ask(); err == nil || contract.FailureOf(err).Class != contract.ClassRateLimited {
		t.Errorf("too many requests: %v", err)
	}
}
