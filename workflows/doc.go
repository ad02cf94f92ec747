// Package workflows interprets plans: everything about a run that must be deterministic.
//
// One run goes like this. [Flow] (flow.go) settles plan, model and tool catalogues (prepare.go,
// connect.go), takes the edges out of START and drives the scheduler (drive.go). The
// scheduler (package schedule) says what can run; a node that lives alone runs in place, nodes
// beside each other run as children of type [Branch] (branch.go), which come back where they
// cannot go on alone. A node is run by [run.visit] (judge.go), the only switch over node
// kinds, and its file kind_<kind>.go. What executions know of each other is in views
// (package schedule); what was said is in the store (store.go), each message once, from where
// activities ask for it by query.
//
// What waits for somebody outside opens a request (requests.go). The run at the root of the
// tree keeps all of them on its desk (desk.go), takes the answers (answer.go) and relays them;
// messages that nobody asked for go to branches by steer.go. Waits give way where a run
// continues as new (continue.go): an execution is carried in its middle, with what its messages
// refer to (referred.go). What is too large to carry fails at the node that made it (grown.go).
//
// In flows with typed values, a value flows along the edges: values.go keeps it in the state,
// compare.go decides by it, kind_transform.go changes and merges it. An agent may end by a
// tool that takes its value and think before it acts (finish.go), take tools by what
// connections offer (boxes.go), and continue one conversation of the flow (talk.go).
// What a model is sent of a conversation that grows too long is in context.go; agents of one
// node that ask each other and hand their conversation over are in team.go.
// Values flow along the edges (values.go) or from node to node by name (ports.go); both live in
// the state. A node whose flows are runs of their own is in kind_call.go, an agent's talk with
// a person in chat.go.
//
// A session (session.go) is a run that takes turns: the flow once more for each prompt, in one
// conversation. What is asked of it comes in by session_door.go; the sessions that its agent
// starts are in session_child.go, the tools with which it does in session_tools.go.
//
// What a run and all below it may spend is in budget.go; hooks.go and webhooks.go are what the
// operator and the author hang on its begin and end. fork.go begins in the middle of another run.
//
// The package never does I/O, reads no clock, environment or randomness, starts no
// goroutine and never ranges over a map. It imports neither activities nor a dialect.
//
// A new node kind is plan/<kind>.go, kind_<kind>.go here, a case in plan's check and a case in
// visit. A change that a running workflow could meet needs workflow.GetVersion and a recorded
// history under tests/testdata/history.
package workflows
