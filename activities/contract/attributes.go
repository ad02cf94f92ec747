package contract

import "strings"

// Search attributes of root runs, all of type Keyword. A namespace need not have them: a run
// writes those alone that its namespace had when it began.
const (
	// AttributeFlow is the flow's name.
	AttributeFlow = "WeftFlow"
	// AttributeDialect is the dialect that the flow was written in.
	AttributeDialect = "WeftDialect"
	// AttributePlanHash is the plan's hash.
	AttributePlanHash = "WeftPlanHash"
	// AttributeStatus is one of the Status constants. It is written when it changes.
	AttributeStatus = "WeftStatus"
	// AttributePrincipal and AttributeTenant are of who started the run, empty where its client did not say.
	AttributePrincipal = "WeftPrincipal"
	AttributeTenant    = "WeftTenant"
)

// Attributes are all of them, in the order in which they are named to people.
var Attributes = []string{AttributeFlow, AttributeDialect, AttributePlanHash, AttributeStatus, AttributePrincipal, AttributeTenant}

// What AttributeStatus says of a run. A terminated run keeps its last status.
const (
	StatusRunning = "running"
	// StatusWaiting means that nothing runs and somebody is asked for something.
	StatusWaiting = "waiting"
	// StatusIdle means that a session waits for its next prompt.
	StatusIdle      = "idle"
	StatusCompleted = "completed"
	StatusFailed    = "failed"
	StatusCancelled = "cancelled"
)

// Memo fields of root runs: for lists, in any namespace. MemoSession is true for a session.
const (
	MemoFlow = "flow"
	MemoHash = "flow_hash"
	// MemoPrincipal and MemoTenant are of who started the run.
	MemoPrincipal = "principal"
	MemoTenant    = "tenant"
	MemoSession   = "session"
	// MemoRequests is an [OpenRequests].
	MemoRequests = "requests"
)

// OpenRequests is what an open run waits for, as its memo has it.
type OpenRequests struct {
	Requests []Request `json:"requests"`
	// More are the requests behind them for which the memo has no room.
	More int `json:"more,omitempty"`
}

// maxKeyword is the most that Temporal keeps of a Keyword, in characters.
const maxKeyword = 255

// Keyword cuts a text to what a search attribute holds.
func Keyword(s string) string {
	s = strings.ToValidUTF8(s, "\uFFFD")
	if runes := []rune(s); len(runes) > maxKeyword {
		return string(runes[:maxKeyword])
	}
	return s
}

// StartFacts are what a root run's start request has set of what a run publishes.
type StartFacts struct {
	Attributes []string `json:"attributes,omitempty"`
	// Memo means that the memo has the flow's name and hash.
	Memo bool `json:"memo,omitempty"`
}

// Publish says what a run writes of itself for lists. It is settled and recorded once, at the
// run's start: an attribute that the namespace does not have would keep the run from going on.
type Publish struct {
	// Attributes are those of [Attributes] that the namespace has.
	Attributes []string `json:"attributes,omitempty"`
	// Unset are those of them that the start request did not set.
	Unset []string `json:"unset,omitempty"`
	// Memo means that the run writes its memo.
	Memo bool `json:"memo,omitempty"`
	// Requests are the ids of those that the memo has.
	Requests []string `json:"requests,omitempty"`
	// Webhooks receive the run's events.
	Webhooks []Webhook `json:"webhooks,omitempty"`
}
