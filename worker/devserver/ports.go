package main

import (
	"fmt"
	"math/rand/v2"
	"net"
)

// Free ports are chosen below the range of outgoing connections (Linux: from 32768 on): a port of that
// range may be used between the choice and the server's start.
const lowestPort, highestPort = 20_000, 32_000

// freePorts finds n different ports on which nothing listens.
func freePorts(n int) ([]int, error) {
	var ports []int
	for range n {
		l, err := listen()
		if err != nil {
			return nil, fmt.Errorf("find a free port: %w", err)
		}
		// Kept open until all are found, so that they differ.
		defer l.Close()
		ports = append(ports, l.Addr().(*net.TCPAddr).Port)
	}
	return ports, nil
}

func listen() (net.Listener, error) {
	for range 100 {
		if l, err := net.Listen("tcp", at(lowestPort+rand.IntN(highestPort-lowestPort))); err == nil {
			return l, nil
		}
	}
	return net.Listen("tcp", at(0))
}

// choosePort returns the wanted port, or a free one for 0. If the wanted port is in use, it returns
// another one if that is allowed, or an error that names the flag.
func choosePort(flag string, want int, orAnother bool) (int, error) {
	if want < 0 || want > 65535 {
		return 0, fmt.Errorf("%s is %d, want 0 to 65535", flag, want)
	}
	if want != 0 {
		l, err := net.Listen("tcp", at(want))
		if err == nil {
			return want, l.Close()
		}
		if !orAnother {
			return 0, fmt.Errorf("%s %d: %w; stop the program listening there, or use another with %s", flag, want, err, flag)
		}
	}
	ports, err := freePorts(1)
	if err != nil {
		return 0, err
	}
	return ports[0], nil
}
