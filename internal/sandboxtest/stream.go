package sandboxtest

import (
	"errors"
	"io"
	"sync"
	"sync/atomic"
	"syscall"
)

// An output carries what programs write to a writer of the caller's. Like a
// pipe it ends when no program holds it any more.
type output struct {
	r       *io.PipeReader
	w       *io.PipeWriter
	holders atomic.Int32
	left    atomic.Bool   // the caller has what it waited for
	done    chan struct{} // closed when the writer has everything
	err     error         // of the writer; valid once done is closed
}

func newOutput(w io.Writer) *output {
	o := &output{done: make(chan struct{})}
	o.r, o.w = io.Pipe()
	go func() {
		defer close(o.done)
		if _, o.err = io.Copy(onlyWriter{w}, o.r); o.err != nil {
			o.r.CloseWithError(syscall.EPIPE)
		}
	}()
	return o
}

// onlyWriter hides what else a writer can do: it is given one piece at a time.
type onlyWriter struct{ io.Writer }

// Write is for programs. Who still writes when the caller has left, does so in
// vain but without an error.
func (o *output) Write(p []byte) (int, error) {
	n, err := o.w.Write(p)
	if err != nil && o.left.Load() {
		return len(p), nil
	}
	return n, err
}

func (o *output) hold() { o.holders.Add(1) }

func (o *output) release() {
	if o.holders.Add(-1) == 0 {
		o.w.Close()
	}
}

// leave ends the caller's interest.
func (o *output) leave() {
	o.left.Store(true)
	o.w.Close()
}

// cut ends the stream, also under a program that is writing.
func (o *output) cut() { o.w.Close() }

// holding calls f for each of a program's streams that is an output.
func holding(p *Proc, f func(*output)) {
	for _, w := range []io.Writer{p.Stdout, p.Stderr} {
		if o, ok := w.(*output); ok {
			f(o)
		}
	}
}

// A feed carries a reader of the caller's to the programs.
type feed struct {
	r *io.PipeReader

	mu  sync.Mutex
	err error // of the reader
}

func newFeed(src io.Reader) *feed {
	f := &feed{}
	r, w := io.Pipe()
	f.r = r
	go func() {
		io.Copy(w, noting{src, f})
		w.Close() // a program sees of a reader that fails just the end
	}()
	return f
}

// noting reads, and notes an error that is not the end.
type noting struct {
	io.Reader
	feed *feed
}

func (n noting) Read(p []byte) (int, error) {
	c, err := n.Reader.Read(p)
	if err != nil && !errors.Is(err, io.EOF) {
		n.feed.mu.Lock()
		n.feed.err = err
		n.feed.mu.Unlock()
	}
	return c, err
}

func (f *feed) close() { f.r.Close() }

func (f *feed) failure() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.err
}
