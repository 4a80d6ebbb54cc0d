package main

import (
	"fmt"
	"io"
	"io/fs"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

const noFollow = syscall.O_NOFOLLOW

// umask is this process's own, which is asked for once.
var umask = sync.OnceValue(func() fs.FileMode {
	mask := syscall.Umask(0o077)
	syscall.Umask(mask)
	return fs.FileMode(mask)
})

// A meter shows on the terminal how far a copy is.
type meter struct {
	done  atomic.Int64
	begin time.Time
	end   chan struct{}
	once  sync.Once
	shown sync.WaitGroup

	mu    sync.Mutex
	name  string
	total int64 // of all that has been announced
	drawn bool
}

func newMeter(quiet bool) *meter {
	m := &meter{begin: time.Now(), end: make(chan struct{})}
	if !quiet && isTerminal(os.Stderr) {
		m.shown.Go(m.show)
	}
	return m
}

// expect announces a file.
func (m *meter) expect(name string, size int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.name = name
	m.total += size
}

func (m *meter) add(n int64) { m.done.Add(n) }

// reader counts what is read.
func (m *meter) reader(r io.Reader) io.Reader { return &counted{r, m} }

type counted struct {
	io.Reader
	meter *meter
}

func (c *counted) Read(p []byte) (int, error) {
	n, err := c.Reader.Read(p)
	c.meter.add(int64(n))
	return n, err
}

func (m *meter) show() {
	tick := time.NewTicker(200 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-m.end:
			m.clear()
			return
		case <-tick.C:
			line := m.line()
			m.mu.Lock()
			fmt.Fprint(os.Stderr, "\r\x1b[K"+line)
			m.drawn = true
			m.mu.Unlock()
		}
	}
}

func (m *meter) clear() {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.drawn {
		fmt.Fprint(os.Stderr, "\r\x1b[K")
	}
	m.drawn = false
}

// say has something said beside the copy.
func (m *meter) say(text string) {
	m.clear()
	fmt.Fprintln(os.Stderr, "hanzo:", printable(text))
}

func (m *meter) line() string {
	m.mu.Lock()
	name, total := m.name, m.total
	m.mu.Unlock()
	done := m.done.Load()
	rate := float64(done) / max(time.Since(m.begin).Seconds(), 0.001)
	share := ""
	if total > 0 {
		const width = 20
		full := int(min(done*width/total, width))
		share = fmt.Sprintf("[%-*s] %3d%% ", width, "####################"[:full], min(done*100/total, 100))
	}
	line := []rune(fmt.Sprintf("%s%.1f MiB, %.1f MiB/s %s", share, float64(done)/(1<<20), rate/(1<<20), inLine(name)))
	_, cols := size(int(os.Stderr.Fd()))
	return string(line[:min(len(line), cols-1)]) // a line that is broken in two is not drawn over
}

// stop ends the showing.
func (m *meter) stop() {
	m.once.Do(func() { close(m.end) })
	m.shown.Wait()
}
