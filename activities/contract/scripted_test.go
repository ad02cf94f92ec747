package contract

import "testing"

func TestScriptedAll(t *testing.T) {
	for list, want := range map[string]bool{
		"script": true, "script/a": true, " script/a , script/b ,": true, "": false, " , ": false,
		"script, openai/x": false, "openai/x, script": false, "scripted": false, "none": false,
	} {
		if got := ScriptedAll(list); got != want {
			t.Errorf("%q: %v, want %v", list, got, want)
		}
	}
}
