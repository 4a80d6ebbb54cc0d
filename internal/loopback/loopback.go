// Package loopback has the rule by which every driver takes the addresses of
// ports inside a sandbox.
package loopback

import (
	"fmt"
	"net"
	"strconv"
)

// Port reads the address that a dial is for. A sandbox has no network, so
// nothing but its own loopback interface can be meant.
func Port(network, address string) (int, error) {
	switch network {
	case "tcp", "tcp4", "tcp6":
	default:
		return 0, fmt.Errorf("network %.40q: have tcp, tcp4, tcp6", network)
	}
	host, service, err := net.SplitHostPort(address)
	if err != nil {
		return 0, fmt.Errorf("address %.80q: use localhost:port", address)
	}
	if ip := net.ParseIP(host); host != "localhost" && host != "" && (ip == nil || !ip.IsLoopback() && !ip.IsUnspecified()) {
		return 0, fmt.Errorf("address %.80q: only the sandbox's own loopback can be dialled: use localhost", address)
	}
	port, err := strconv.ParseUint(service, 10, 16)
	if err != nil || port == 0 {
		return 0, fmt.Errorf("address %.80q: the port is 1 to 65535", address)
	}
	return int(port), nil
}
