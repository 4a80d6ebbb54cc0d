package command

import (
	"fmt"
	"io"
	"iter"
	"os"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/hanzoai/sandbox/sandbox/image"
)

// show tells how far something is, as a bar on a terminal and as lines
// elsewhere.
func (c *call) show(what string, steps iter.Seq2[image.Progress, error]) error {
	width := terminalWidth(c.Stderr)
	tell := c.lines(what)
	switch {
	case c.quiet:
		tell = func(image.Progress) {}
	case width > 0:
		tell = func(p image.Progress) { fmt.Fprint(c.Stderr, "\r\x1b[K", bar(what, p, width)) }
		defer fmt.Fprint(c.Stderr, "\r\x1b[K")
	}
	var last image.Progress
	for p, err := range steps {
		if err != nil {
			return err
		}
		tell(p)
		last = p
	}
	fmt.Fprintf(c.Stdout, "%s: %s\n", what, last.Digest)
	return nil
}

// terminalWidth is how wide a terminal is, or 0 of what is none.
func terminalWidth(w io.Writer) int {
	f, ok := w.(*os.File)
	if !ok {
		return 0
	}
	size, err := unix.IoctlGetWinsize(int(f.Fd()), unix.TIOCGWINSZ)
	if err != nil {
		return 0
	}
	return int(size.Col)
}

// bar is one line that shows how far something is.
func bar(what string, p image.Progress, width int) string {
	done := 0.0
	if p.Total > 0 {
		done = min(1, float64(p.Bytes)/float64(p.Total))
	}
	right := fmt.Sprintf(" %3.0f%%  %s of %s  %d/%d layers  %s", done*100, size(p.Bytes), size(p.Total), p.Layers, p.Of, p.Step)
	if p.Total == 0 {
		right = " " + p.Step
	}
	room := width - len(what) - len(right) - 4
	if room < 8 {
		return cut(what+right, width-1)
	}
	full := int(done * float64(room))
	return what + " [" + strings.Repeat("=", full) + strings.Repeat(" ", room-full) + "]" + right
}

func cut(s string, n int) string {
	if n < 0 || len(s) <= n {
		return s
	}
	return s[:n]
}

// lines returns what tells of each step and of each tenth of the bytes.
func (c *call) lines(what string) func(image.Progress) {
	step, tenth := "", int64(-1)
	return func(p image.Progress) {
		now := int64(0)
		if p.Total > 0 {
			now = p.Bytes * 10 / p.Total
		}
		if p.Step == step && now == tenth {
			return
		}
		step, tenth = p.Step, now
		fmt.Fprintf(c.Stderr, "%s: %s %d%%, %s of %s, %d of %d layers\n", what, p.Step, now*10, size(p.Bytes), size(p.Total), p.Layers, p.Of)
	}
}
