package main

import (
	"encoding/json"
	"os"
	"os/user"
	"strings"
	"unicode/utf8"

	"weft/starter/plaintext"
)

// by is who answers: the flag, or the user as Temporal's command line names itself.
func (a *app) by() string {
	if a.flags.by != "" {
		return a.flags.by
	}
	name := "unknown"
	if u, err := user.Current(); err == nil {
		name = u.Username
	}
	if host, err := os.Hostname(); err == nil {
		name += "@" + host
	}
	return plaintext.Cut(name, 400)
}

// rawJSON reads the value of a flag as JSON, from a file for @FILE, from standard input for
// -. It gives nil for "".
func (a *app) rawJSON(flag, value string) (json.RawMessage, error) {
	v, err := a.readJSON(flag, value)
	if err != nil || v == nil {
		return nil, err
	}
	return v.JSON(), nil
}

// readMessage gives a message's text: the argument, a file's, or standard input's.
func (a *app) readMessage(args []string) (string, error) {
	value := "-"
	if len(args) > 0 {
		value = args[0]
	}
	text, err := a.textOf("the message", value)
	if err != nil {
		return "", err
	}
	if value == "-" || strings.HasPrefix(value, "@") {
		text = strings.TrimSuffix(strings.TrimSuffix(text, "\n"), "\r")
	}
	if text == "" {
		return "", bad("missing text; usage: starter message ID [TEXT|@FILE|-]")
	}
	return text, nil
}

// textOf gives a value itself, or the text of the file that @FILE names, or standard input
// for -.
func (a *app) textOf(what, value string) (string, error) {
	name, file := strings.CutPrefix(value, "@")
	switch {
	case file && name == "":
		return "", bad("%s is @ without a file; use @FILE", what)
	case value == "-":
		name = "-"
	case !file:
		name = ""
	}
	if name != "" {
		data, err := a.readFile(what, name)
		if err != nil {
			return "", err
		}
		value = string(data)
	}
	if !utf8.ValidString(value) {
		return "", bad("%s is not valid UTF-8; convert it", what)
	}
	return value, nil
}
