// Command weather provides one tool in every form that a flow can use: an MCP server over stdio; with
// -http, one over streamable HTTP (/mcp) and SSE (/sse), which also answers plain requests
// (/weather/CITY); with -task-queue, an activity without Weft's code.
package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"log"
	"net"
	"net/http"
	"os"

	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/worker"
)

func main() {
	address := flag.String("http", "", "where to serve over HTTP, like 127.0.0.1:3004")
	queue := flag.String("task-queue", "", "where to poll for activities; TEMPORAL_ADDRESS says at which server")
	flag.Parse()
	var err error
	switch {
	case *address != "":
		err = serve(*address)
	case *queue != "":
		err = work(*queue)
	default:
		err = server.ServeStdio(tools())
	}
	if err != nil {
		log.Fatalln("weather:", err)
	}
}

// Question is the tool's input.
type Question struct {
	City string `json:"city"`
}

// Forecast is the tool's output.
type Forecast struct {
	Sky     string `json:"sky"`
	Degrees int    `json:"degrees"`
}

func forecast(_ context.Context, q Question) (Forecast, error) {
	if q.City != "Oslo" {
		return Forecast{}, fmt.Errorf("there is no forecast for %q, only for Oslo", q.City)
	}
	return Forecast{"clear", 21}, nil
}

// tools is the MCP server.
func tools() *server.MCPServer {
	s := server.NewMCPServer("weather", "1")
	s.AddTool(mcp.NewTool("weather", mcp.WithDescription("Tells the weather of a city."), mcp.WithString("city", mcp.Required()), mcp.WithReadOnlyHintAnnotation(true)),
		mcp.NewTypedToolHandler(func(ctx context.Context, _ mcp.CallToolRequest, q Question) (*mcp.CallToolResult, error) {
			f, err := forecast(ctx, q)
			if err != nil {
				return mcp.NewToolResultError(err.Error()), nil
			}
			return mcp.NewToolResultJSON(f)
		}))
	return s
}

func serve(address string) error {
	l, err := net.Listen("tcp", address)
	if err != nil {
		return err
	}
	base := "http://" + l.Addr().String()
	sse := server.NewSSEServer(tools(), server.WithBaseURL(base))
	mux := http.NewServeMux()
	mux.Handle("/mcp", server.NewStreamableHTTPServer(tools()))
	mux.Handle("/sse", sse)
	mux.Handle("/message", sse)
	mux.HandleFunc("GET /weather/{city}", func(w http.ResponseWriter, r *http.Request) {
		f, err := forecast(r.Context(), Question{r.PathValue("city")})
		if err != nil {
			http.Error(w, err.Error(), http.StatusNotFound)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(f)
	})
	fmt.Println(base)
	return http.Serve(l, mux)
}

func work(queue string) error {
	c, err := client.Dial(client.Options{HostPort: os.Getenv("TEMPORAL_ADDRESS"), Namespace: os.Getenv("TEMPORAL_NAMESPACE")})
	if err != nil {
		return err
	}
	defer c.Close()
	w := worker.New(c, queue, worker.Options{})
	w.RegisterActivityWithOptions(forecast, activity.RegisterOptions{Name: "Weather"})
	return w.Run(worker.InterruptCh())
}
