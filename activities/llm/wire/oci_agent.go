package wire

import (
	"encoding/json"
	"net/url"
	"strings"

	"weft/activities/contract"
	"weft/activities/textutil"
)

// encodeOCIAgent asks an agent behind an endpoint of the service Generative AI Agents, in the session of the
// conversation, which the first request makes. It is sent what users wrote since its last message.
func (m *Model) encodeOCIAgent(q *Request) (*Outgoing, error) {
	text, session := m.pendingText(q.Messages)
	at := *m
	// The service's address in the provider's region; a configured address is for both services.
	at.Base = strings.Replace(m.Base, "https://inference.generativeai.", "https://agent-runtime.generativeai.", 1) +
		"/20240531/agentEndpoints/" + url.PathEscape(strings.TrimPrefix(m.Name, ociAgentPrefix))
	ask := func(session string) (*Outgoing, error) {
		return at.send("/actions/chat", object{"userMessage": text, "sessionId": session, "shouldStream": false}, nil,
			&ociAgentReader{draft{m: m, state: providerState{Session: session}}})
	}
	if session != "" {
		return ask(session)
	}
	out, err := at.send("/sessions", object{}, nil, nil)
	out.Then = func(body []byte) (*Outgoing, error) {
		var created struct {
			ID string `json:"id"`
		}
		if json.Unmarshal(body, &created) != nil || created.ID == "" {
			return nil, Invalidf("the answer to a new session has no id: %s", excerpt(body))
		}
		return ask(created.ID)
	}
	return out, err
}

// pendingText is what users wrote since the agent's last message, and its session; before that, the last text.
func (m *Model) pendingText(in []contract.Message) (text, session string) {
	var texts []string
	for i := len(in) - 1; i >= 0 && session == ""; i-- {
		if in[i].Role == contract.RoleUser {
			texts = append([]string{in[i].Text}, texts...)
		} else if own := m.ownState(in[i].Provider); own != nil {
			session = own.Session
		}
	}
	if session == "" && len(texts) > 0 {
		texts = texts[len(texts)-1:]
	}
	return strings.Join(texts, "\n\n"), session
}

type ociAgentReader struct{ draft }

func (r *ociAgentReader) Read(raw []byte, _ bool) (bool, error) {
	var a struct {
		Message *struct {
			Content struct {
				Text LooseText `json:"text"`
			} `json:"content"`
		} `json:"message"`
		Required []json.RawMessage `json:"requiredActions"`
	}
	if err := json.Unmarshal(raw, &a); err != nil {
		return false, &Error{Reported: raw}
	}
	if len(a.Required) > 0 {
		return false, unsendable("the agent requires an action of its client (requiredActions), which is not supported: %s", textutil.Truncate(string(a.Required[0]), 200))
	}
	if a.Message == nil {
		return false, Invalidf("the answer has no message: %s", excerpt(raw))
	}
	r.finish = "stop"
	r.text.WriteString(string(a.Message.Content.Text))
	return true, nil
}

func (r *ociAgentReader) Result() (*Answer, error) { return r.result("message") }
