package loopback_test

import (
	"testing"

	"github.com/hanzoai/sandbox/internal/loopback"
)

func TestPort(t *testing.T) {
	for _, c := range []struct {
		network, address string
		want             int // 0 is an error
	}{
		{"tcp", "localhost:80", 80},
		{"tcp4", "127.0.0.1:1", 1},
		{"tcp6", "[::1]:65535", 65535},
		{"tcp", "127.8.9.10:8080", 8080},
		{"tcp", ":8080", 8080},
		{"tcp", "0.0.0.0:8080", 8080},
		{"udp", "localhost:80", 0},
		{"", "localhost:80", 0},
		{"tcp", "localhost", 0},
		{"tcp", "localhost:http", 0},
		{"tcp", "localhost:0", 0},
		{"tcp", "localhost:65536", 0},
		{"tcp", "localhost:-1", 0},
		{"tcp", "example.com:80", 0},
		{"tcp", "169.254.169.254:80", 0},
		{"tcp", "10.0.0.1:80", 0},
		{"tcp", "[::ffff:10.0.0.1]:80", 0},
		{"tcp", "localhost.example.com:80", 0},
	} {
		got, err := loopback.Port(c.network, c.address)
		if got != c.want || (err == nil) != (c.want != 0) {
			t.Errorf("%s %s: %d, %v", c.network, c.address, got, err)
		}
	}
}
