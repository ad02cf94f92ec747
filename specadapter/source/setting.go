package source

import (
	"fmt"
	"net/url"
)

// ConnectionLine is the line of weft.yaml that gives a worker a connection of its own: at an
// address, without user and password, which belong into its headers, or at one that the
// operator fills in.
func ConnectionLine(id, address string) string {
	if id == "" {
		id = "ID"
	}
	u, err := url.Parse(address)
	if address == "" || err != nil {
		return fmt.Sprintf("connections: {%q: {url: \"https://HOST/mcp\"}}", id)
	}
	if u.User == nil {
		return fmt.Sprintf("connections: {%q: {url: %q}}", id, u)
	}
	u.User, u.RawQuery, u.Fragment = nil, "", ""
	return fmt.Sprintf("connections: {%q: {url: %q, headers: {Authorization: \"Basic ${TOKEN}\"}}}", id, u)
}

// CommandLine is the line of weft.yaml that lets a worker start a program as a connection.
func CommandLine(id string) string {
	return fmt.Sprintf("connections: {%q: {transport: stdio, command: PROGRAM, args: []}}", id)
}
