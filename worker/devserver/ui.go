package main

import (
	"fmt"
	"net"
	"time"

	webserver "github.com/temporalio/ui-server/v2/server"
	webconfig "github.com/temporalio/ui-server/v2/server/config"
	weboptions "github.com/temporalio/ui-server/v2/server/server_options"
)

// startUI serves the Web UI of the server at an address and waits until it responds.
func startUI(address string, port int) (*webserver.Server, error) {
	srv := webserver.NewServer(weboptions.WithConfigProvider(&webconfig.Config{
		Host: loopback, Port: port, TemporalGRPCAddress: address, EnableUI: true,
		CORS: webconfig.CORS{CookieInsecure: true}, HideLogs: true, DisableNewsFetch: true,
	}))
	failed := make(chan error, 1)
	go func() { failed <- srv.Start() }()
	const timeout = 10 * time.Second
	for deadline := time.Now().Add(timeout); time.Now().Before(deadline); {
		select {
		case err := <-failed:
			return nil, fmt.Errorf("start the Web UI on %s: %w", at(port), err)
		case <-time.After(20 * time.Millisecond):
		}
		if c, err := net.DialTimeout("tcp", at(port), time.Second); err == nil {
			return srv, c.Close()
		}
	}
	srv.Stop()
	return nil, fmt.Errorf("start the Web UI on %s: no response within %v", at(port), timeout)
}
