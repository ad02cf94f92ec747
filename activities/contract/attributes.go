package contract

import "strings"

// Search attributes of root runs, all of type Keyword. They are optional in a namespace: a run writes only those that the
// namespace had when the run started.
const (
	// AttributeFlow is the flow's name.
	AttributeFlow = "WeftFlow"
	// AttributeDialect is the dialect that the flow was written in.
	AttributeDialect = "WeftDialect"
	// AttributePlanHash is the plan's hash.
	AttributePlanHash = "WeftPlanHash"
	// AttributeStatus is one of the Status constants, updated when it changes.
	AttributeStatus = "WeftStatus"
	// AttributePrincipal and AttributeTenant identify who started the run; empty if the client did not say.
	AttributePrincipal = "WeftPrincipal"
	AttributeTenant    = "WeftTenant"
)

// Attributes lists all search attributes, in display order.
var Attributes = []string{AttributeFlow, AttributeDialect, AttributePlanHash, AttributeStatus, AttributePrincipal, AttributeTenant}

// The values of AttributeStatus. A terminated run keeps its last status.
const (
	StatusRunning = "running"
	// StatusWaiting means that nothing is running and the run waits for the answer to a request.
	StatusWaiting = "waiting"
	// StatusIdle means that a session waits for its next prompt.
	StatusIdle      = "idle"
	StatusCompleted = "completed"
	StatusFailed    = "failed"
	StatusCancelled = "cancelled"
)

// Memo fields of root runs, for lists in any namespace. MemoSession is true for a session.
const (
	MemoFlow = "flow"
	MemoHash = "flow_hash"
	// MemoPrincipal and MemoTenant identify who started the run.
	MemoPrincipal = "principal"
	MemoTenant    = "tenant"
	MemoSession   = "session"
	// MemoRequests is an [OpenRequests].
	MemoRequests = "requests"
)

// OpenRequests lists what an open run waits for, in its memo.
type OpenRequests struct {
	Requests []Request `json:"requests"`
	// More counts further requests that do not fit in the memo.
	More int `json:"more,omitempty"`
}

// maxKeyword is Temporal's limit for a Keyword, in characters.
const maxKeyword = 255

// Keyword truncates a string to the length of a Keyword search attribute.
func Keyword(s string) string {
	s = strings.ToValidUTF8(s, "\uFFFD")
	if runes := []rune(s); len(runes) > maxKeyword {
		return string(runes[:maxKeyword])
	}
	return s
}

// StartFacts reports which published fields a root run's start request has set.
type StartFacts struct {
	Attributes []string `json:"attributes,omitempty"`
	// Memo means that the memo has the flow's name and hash.
	Memo bool `json:"memo,omitempty"`
}

// Publish specifies what a run publishes for lists. It is determined and recorded once, when the run starts, because an
// attribute that the namespace lacks would block the run.
type Publish struct {
	// Attributes are the [Attributes] that the namespace has.
	Attributes []string `json:"attributes,omitempty"`
	// Unset are those of them that the start request did not set.
	Unset []string `json:"unset,omitempty"`
	// Memo means that the run writes its memo.
	Memo bool `json:"memo,omitempty"`
	// Requests are the ids of the requests in the memo.
	Requests []string `json:"requests,omitempty"`
	// Webhooks receive the run's events.
	Webhooks []Webhook `json:"webhooks,omitempty"`
}
