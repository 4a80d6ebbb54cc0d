package socket

import (
	"encoding/json"
	"strings"

	"github.com/hanzoai/sandbox/internal/guest/wire"
	"github.com/hanzoai/sandbox/internal/problem"
	"github.com/hanzoai/sandbox/sandbox"
)

// A Failure is what a command's socket ends with when it is not an exit: what
// cut the command short, or why it did not run. It travels as the text of the
// init's error frame.
type Failure struct {
	Cause   sandbox.Cause    `json:"cause,omitempty"`
	Problem *problem.Details `json:"problem,omitempty"`
}

// Frame is the failure as an error frame.
func (f *Failure) Frame() []byte {
	text, err := json.Marshal(f)
	if err != nil {
		panic(err) // of strings and numbers
	}
	e := wire.Error{Phase: wire.PhaseCall, Text: string(text)}
	return wire.AppendFrame(nil, wire.KindError, e.Append(nil))
}

// FailureOf reads a failure back.
func FailureOf(e *wire.Error) (*Failure, bool) {
	f := &Failure{}
	if e.Phase != wire.PhaseCall || !strings.HasPrefix(e.Text, "{") || json.Unmarshal([]byte(e.Text), f) != nil {
		return nil, false
	}
	return f, f.Cause != "" || f.Problem != nil
}
