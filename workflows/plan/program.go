package plan

// KindProgram runs a program of the worker's; configured by [Program].
//
// Sources: the blueprint dialect's procedural agents.
const KindProgram Kind = "program"

// Program configures a node of [KindProgram]. It names what a folder has that the worker's
// operator trusts, and never a file of its own: a plan may come from anybody. The node's output is
// the JSON that the program prints, or an object with its return_code, stdout and stderr.
type Program struct {
	// Script is a script of the folder, scripts/NAME; File is the file that its script.json names,
	// and SHA the file's SHA-256 in hexadecimal, empty where no one has looked.
	Script string `json:"script,omitempty"`
	File   string `json:"file,omitempty"`
	SHA    string `json:"sha256,omitempty"`
	// Agent is the agent of the folder, agents/NAME, whose agent.json has Command.
	Agent   string `json:"agent,omitempty"`
	Command string `json:"command,omitempty"`
	// Argv are Command's words; Args come behind them, and are made of the run's parameters when it
	// starts.
	Argv []string `json:"argv,omitempty"`
	Args []string `json:"args,omitempty"`
	// Seconds is how long it may run, at least 1; then it ends with the code 124.
	Seconds int `json:"seconds"`
}

// program checks a node of kind program.
func (c *checker) program(n *Node) {
	switch p := n.Program; {
	case p == nil || (p.Script == "") == (p.Agent == ""):
		c.add("node %q has no program or two: want program.script or program.agent", n.ID)
	case p.Script != "" && p.File == "", p.Agent != "" && len(p.Argv) == 0:
		c.add("node %q: want program.file with a script, and program.words with an agent", n.ID)
	case p.Seconds < 1 || p.Seconds > maxLimit:
		c.add("node %q: program.seconds is %d, want 1 to %d", n.ID, p.Seconds, maxLimit)
	}
}
