package image

import (
	"context"
	"io"
	"iter"
	"sync"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
)

// Progress is how far a pull, an import or an export is.
type Progress struct {
	// Step is what is being done: "resolve", "fetch" with which goes
	// unpacking, "link", "write", and at the end "done".
	Step   string `json:"step"`
	Digest string `json:"digest,omitempty"` // of the image, at the end

	Bytes  int64 `json:"bytes"`           // of the layers, as they are sent, that are here
	Total  int64 `json:"total,omitempty"` // 0 as long as it is not known
	Layers int   `json:"layers"`          // that are here
	Of     int   `json:"of,omitempty"`
}

// meter counts what is done. A nil meter counts nothing.
type meter struct {
	mu      sync.Mutex
	now     Progress
	changed chan struct{} // has one element when there is something to tell
}

func newMeter() *meter {
	return &meter{now: Progress{Step: "resolve"}, changed: make(chan struct{}, 1)}
}

func (m *meter) change(f func(p *Progress)) {
	if m == nil {
		return
	}
	m.mu.Lock()
	f(&m.now)
	m.mu.Unlock()
	select {
	case m.changed <- struct{}{}:
	default:
	}
}

func (m *meter) step(name string) { m.change(func(p *Progress) { p.Step = name }) }

func (m *meter) expect(layers []v1.Descriptor) {
	m.change(func(p *Progress) {
		p.Step, p.Of = "fetch", len(layers)
		for _, d := range layers {
			p.Total += d.Size
		}
	})
}

func (m *meter) have(n int64)  { m.change(func(p *Progress) { p.Bytes += n }) }
func (m *meter) layerDone()    { m.change(func(p *Progress) { p.Layers++ }) }
func (m *meter) done(h string) { m.change(func(p *Progress) { p.Step, p.Digest = "done", h }) }

func (m *meter) snapshot() Progress {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.now
}

// reader counts what is read.
func (m *meter) reader(r io.Reader) *countedReader { return &countedReader{m: m, r: r} }

type countedReader struct {
	m *meter
	r io.Reader
	n int64
}

func (c *countedReader) Read(p []byte) (int, error) {
	n, err := c.r.Read(p)
	c.n += int64(n)
	c.m.have(int64(n))
	return n, err
}

// progressPause is the least time between two of the Progress that are told.
const progressPause = 100 * time.Millisecond

// progress runs work and tells how far it is, at last whether it failed. Who
// stops listening ends it.
func progress(ctx context.Context, work func(ctx context.Context, m *meter) error) iter.Seq2[Progress, error] {
	return func(yield func(Progress, error) bool) {
		ctx, cancel := context.WithCancel(ctx)
		m, result := newMeter(), make(chan error, 1)
		go func() { result <- work(ctx, m) }()
		err, listening := m.tell(result, func(p Progress) bool { return yield(p, nil) })
		cancel()
		if !listening {
			<-result
			return
		}
		yield(m.snapshot(), err)
	}
}

// tell tells of changes until there is a result, or nobody listens.
func (m *meter) tell(result <-chan error, yield func(Progress) bool) (err error, listening bool) {
	pause := time.NewTicker(progressPause)
	defer pause.Stop()
	for {
		select {
		case err := <-result:
			return err, true
		case <-m.changed:
		}
		if !yield(m.snapshot()) {
			return nil, false
		}
		select {
		case err := <-result:
			return err, true
		case <-pause.C:
		}
	}
}
