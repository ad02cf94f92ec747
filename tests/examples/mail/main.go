// Command mail is a tool server for flows: it implements MCP over stdio and has one tool,
// send_mail, which appends to a file instead of sending. bin/mail FILE
package main

import (
	"context"
	"fmt"
	"os"

	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"
)

type mailIn struct {
	To   string `json:"to"`
	Text string `json:"text"`
}

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: mail FILE")
		os.Exit(2)
	}
	s := server.NewMCPServer("mail", "1")
	send := mcp.NewTool("send_mail", mcp.WithDescription("Sends a mail to a customer."),
		mcp.WithString("to", mcp.Required()), mcp.WithString("text", mcp.Required()))
	s.AddTool(send, mcp.NewTypedToolHandler(func(_ context.Context, _ mcp.CallToolRequest, in mailIn) (*mcp.CallToolResult, error) {
		f, err := os.OpenFile(os.Args[1], os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
		if err != nil {
			return nil, err
		}
		if _, err = fmt.Fprintf(f, "to %s: %s\n", in.To, in.Text); err != nil {
			f.Close()
			return nil, err
		}
		return mcp.NewToolResultText("sent"), f.Close()
	}))
	if err := server.ServeStdio(s); err != nil {
		fmt.Fprintln(os.Stderr, "mail:", err)
		os.Exit(1)
	}
}
