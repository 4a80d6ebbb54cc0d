package server

import (
	"context"
	"io"
)

// keys are what is typed to a program, as it reads it. Unlike with a pipe,
// whoever types can give up on a program that does not read.
type keys struct {
	sent chan []byte
	rest []byte // of the reader's
	over chan struct{}
}

func newKeys() *keys { return &keys{sent: make(chan []byte), over: make(chan struct{})} }

// send types, until ctx ends. After the end there is nobody to type to.
func (k *keys) send(ctx context.Context, b []byte) {
	select {
	case k.sent <- b:
	case <-k.over:
	case <-ctx.Done():
	}
}

// Read is the program's, and of one caller at a time.
func (k *keys) Read(p []byte) (int, error) {
	for len(k.rest) == 0 {
		select {
		case k.rest = <-k.sent:
		case <-k.over:
			return 0, io.EOF
		}
	}
	n := copy(p, k.rest)
	k.rest = k.rest[n:]
	return n, nil
}

// close is called once, when the program is over.
func (k *keys) close() { close(k.over) }
