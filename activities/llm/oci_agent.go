package llm

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"maps"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/tmc/langchaingo/llms"

	"weft/activities/textutil"
)

// ociAgentPrefix begins the name of a model that is an agent's endpoint of the service Generative AI Agents.
const ociAgentPrefix = "agent/"

// ociAgentPath is where that service has its version.
const ociAgentPath = "/20240531/agentEndpoints/"

// ociAgent is an agent behind an endpoint. It is sent what users wrote since its last message.
type ociAgent struct {
	oci
	session string
}

// newOCI is a model of Oracle's, or an agent.
func newOCI(m *remote) protocol {
	switch {
	case strings.HasPrefix(m.model, ociAgentPrefix):
		return &ociAgent{oci: oci{m}}
	case strings.HasPrefix(m.model, ociCohereName), strings.HasPrefix(m.model, ociCoherePrefix):
		return ociCohere{oci{m}}
	}
	return oci{m}
}

// base is the service's address in the provider's region; a configured address is for both services.
func (c *ociAgent) base() string {
	return strings.Replace(c.remote.base, "https://inference.generativeai.", "https://agent-runtime.generativeai.", 1)
}

func (c *ociAgent) endpoint() string {
	return url.PathEscape(strings.TrimPrefix(c.model, ociAgentPrefix))
}

// start finds the session of the conversation, or creates one.
func (c *ociAgent) start(ctx context.Context, x *exchange, in []llms.MessageContent) error {
	if _, c.session = c.pendingText(in); c.session != "" {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, c.first)
	defer cancel()
	raw, header, status, err := c.post(ctx, "/sessions", []byte(`{}`))
	if err != nil {
		return err
	}
	var created struct {
		ID string `json:"id"`
	}
	if status > 299 {
		return x.reported(newReport(status, header, raw, time.Now()))
	}
	if json.Unmarshal(raw, &created) != nil || created.ID == "" {
		return invalidf("the answer to a new session has no id: %s", excerpt(raw))
	}
	c.session = created.ID
	return nil
}

// post makes a small signed request.
func (c *ociAgent) post(ctx context.Context, path string, body []byte) (raw []byte, header http.Header, status int, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, c.base()+ociAgentPath+c.endpoint()+path, bytes.NewReader(body))
	if err != nil {
		return nil, nil, 0, err
	}
	maps.Copy(req.Header, c.headers)
	req.Header.Set("Content-Type", "application/json")
	if err := c.authorize(req, body); err != nil {
		return nil, nil, 0, err
	}
	resp, err := c.client.Do(req)
	if err != nil {
		return nil, nil, 0, err
	}
	defer resp.Body.Close()
	raw, err = io.ReadAll(io.LimitReader(resp.Body, 1<<20))
	return raw, resp.Header, resp.StatusCode, err
}

// pendingText is what users wrote since the agent's last message, and its session; before that, the last text.
func (c *ociAgent) pendingText(in []llms.MessageContent) (text, session string) {
	var texts []string
	for i := len(in) - 1; i >= 0 && session == ""; i-- {
		for _, part := range in[i].Parts {
			switch p := part.(type) {
			case llms.TextContent:
				if in[i].Role == llms.ChatMessageTypeHuman {
					texts = append([]string{p.Text}, texts...)
				}
			case ReasoningPart:
				if s := c.ownState(p.Provider); s != nil && s.Session != "" {
					session = s.Session
				}
			}
		}
	}
	if session == "" && len(texts) > 0 {
		texts = texts[len(texts)-1:]
	}
	return strings.Join(texts, "\n\n"), session
}

func (c *ociAgent) encode(_ *Call, in []llms.MessageContent, _ *llms.CallOptions) (*outgoing, error) {
	text, _ := c.pendingText(in)
	raw, err := c.marshal(map[string]any{"userMessage": text, "sessionId": c.session, "shouldStream": false}, nil)
	return &outgoing{base: c.base(), path: ociAgentPath + c.endpoint() + "/actions/chat", body: raw}, err
}

func (c *ociAgent) reader(x *exchange) reader {
	return &ociAgentReader{draft{x: x, state: providerState{Session: c.session}}}
}

// ociAgentReader reads the one answer.
type ociAgentReader struct{ draft }

func (r *ociAgentReader) read(raw []byte, _ bool) (string, bool, error) {
	var a struct {
		Message *struct {
			Content struct {
				Text looseText `json:"text"`
			} `json:"content"`
		} `json:"message"`
		Required []json.RawMessage `json:"requiredActions"`
	}
	if err := json.Unmarshal(raw, &a); err != nil {
		return "", false, r.x.providerError(raw)
	}
	if len(a.Required) > 0 {
		return "", false, r.x.unsendable("the agent requires an action of its client (requiredActions), which is not supported: %s", textutil.Truncate(string(a.Required[0]), 200))
	}
	if a.Message == nil {
		return "", false, invalidf("the answer has no message: %s", excerpt(raw))
	}
	r.finish = "stop"
	r.text.WriteString(string(a.Message.Content.Text))
	return r.soFar(), true, nil
}

func (r *ociAgentReader) response() (*llms.ContentResponse, error) { return r.result("message") }
