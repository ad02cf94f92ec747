package main

import (
	"flag"
	"fmt"

	"weft/activities/contract"
)

// answerFlags are those of the commands about requests.
type answerFlags struct {
	yes, no, remember, giveUp, signal, waiting bool
	arguments, result, toolError               string
	by, node, request, key, onError            string
	// hasResult and hasLimit tell flags that were given from their defaults.
	hasResult, hasLimit bool
}

// set adds the flags to those of all commands.
func (f *answerFlags) set(fs *flag.FlagSet) {
	fs.BoolVar(&f.yes, "yes", false, "the tool may be called")
	fs.BoolVar(&f.no, "no", false, "the tool may not be called")
	fs.StringVar(&f.arguments, "arguments", "", "`JSON|@FILE`: the object with which the tool is called instead")
	fs.BoolVar(&f.remember, "remember", false, "the answer holds for all later calls of the same tool in this run")
	fs.StringVar(&f.result, "result", "", "`JSON|@FILE|-`: what the tool gave, - for standard input")
	fs.StringVar(&f.toolError, "error", "", "`TEXT` of the tool's error, for the model")
	fs.BoolVar(&f.giveUp, "give-up", false, "do not try again: the node fails")
	fs.StringVar(&f.by, "by", "", "`NAME` of who answers (default: you, as user@host)")
	fs.BoolVar(&f.signal, "signal", false, "send a signal and wait for no receipt; a worker may take it later")
	fs.StringVar(&f.node, "node", "", "id of the `NODE` that gets the message")
	fs.StringVar(&f.request, "request", "", "id of the `REQUEST` that the message answers, or its begin or end")
	fs.StringVar(&f.key, "key", "", "your own `NAME` of the message: sent twice, it counts once")
	fs.BoolVar(&f.waiting, "waiting", false, "list what open runs wait for instead")
	fs.StringVar(&f.onError, "on-error", "", "`park|fail`: what a run does when an operator must mend something (default: park, and wait)")
}

// note takes down that a flag was given.
func (f *answerFlags) note(name string) {
	f.hasResult = f.hasResult || name == "result"
	f.hasLimit = f.hasLimit || name == "limit"
}

// check refuses values that no command takes.
func (f *answerFlags) check() error {
	switch f.onError {
	case "", contract.OnErrorPark, contract.OnErrorFail:
		return nil
	}
	return badInput{fmt.Sprintf("-on-error is %q, want %s or %s", f.onError, contract.OnErrorPark, contract.OnErrorFail)}
}
