package health

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"time"

	"weft/worker/build"
)

// Paths of the two endpoints.
const (
	PathLive  = "/livez"
	PathReady = "/readyz"
)

// Handle adds both endpoints to a server. They respond with 200 or 503, and a [Report] as the body.
func (h *Health) Handle(mux *http.ServeMux) {
	mux.HandleFunc("GET "+PathLive, func(w http.ResponseWriter, _ *http.Request) {
		answer(w, report(Check{Name: "process", OK: true}))
	})
	mux.HandleFunc("GET "+PathReady, func(w http.ResponseWriter, r *http.Request) {
		answer(w, h.Ready(r.Context()))
	})
}

func report(checks ...Check) Report {
	r := Report{OK: true, Checks: checks}
	r.Version, r.Revision = build.Info()
	for _, c := range checks {
		r.OK = r.OK && c.OK
	}
	return r
}

func answer(w http.ResponseWriter, r Report) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	if !r.OK {
		w.WriteHeader(http.StatusServiceUnavailable)
	}
	// A client that has disconnected needs no response.
	_ = json.NewEncoder(w).Encode(r)
}

// queryTimeout bounds one query; it is longer than a ping of Temporal.
const queryTimeout = pingTimeout + time.Second

// Query reads the report of the worker that listens at an address, host:port or :port, from a path.
func Query(ctx context.Context, listen, path string) (*Report, error) {
	host, port, err := net.SplitHostPort(listen)
	if err != nil {
		return nil, fmt.Errorf("the address %q is not host:port: %w", listen, err)
	}
	// A server on all addresses also listens on loopback.
	if ip := net.ParseIP(host); host == "" || ip != nil && ip.IsUnspecified() {
		host = "127.0.0.1"
	}
	ctx, cancel := context.WithTimeout(ctx, queryTimeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+net.JoinHostPort(host, port)+path, nil)
	if err != nil {
		return nil, err
	}
	// No proxy stands between a worker and itself.
	resp, err := (&http.Client{Transport: &http.Transport{DisableKeepAlives: true}}).Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	raw, err := io.ReadAll(io.LimitReader(resp.Body, 64<<10))
	if err != nil {
		return nil, err
	}
	var r Report
	if err := json.Unmarshal(raw, &r); err != nil || r.Version == "" {
		return nil, fmt.Errorf("%s returns %s, which is not a worker's report", req.URL, resp.Status)
	}
	return &r, nil
}
