package main

import (
	"fmt"
	"math/rand/v2"
	"net"
)

// Ports that nobody asks for are below those which systems give to outgoing connections (Linux from
// 32768 on): one of those may be taken between the choice and the server's start.
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

// choosePort gives a wanted port, or a free one for 0. A wanted port that is taken is an
// error that names the flag, unless another will do.
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
			return 0, fmt.Errorf("%s %d: %w; stop what listens there, or choose another with %s", flag, want, err, flag)
		}
	}
	ports, err := freePorts(1)
	if err != nil {
		return 0, err
	}
	return ports[0], nil
}
