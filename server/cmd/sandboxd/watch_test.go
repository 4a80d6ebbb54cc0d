package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

// A span is how long an engine was seen to run, from the first sight of it to
// the last.
type span struct{ from, to time.Time }

// engines are the spans of each sandbox of a root, as this machine's processes
// show them: it asks neither the server nor its files.
type engines struct {
	mu    sync.Mutex
	spans map[string][]span
	last  time.Time // when it was looked last
	gap   time.Duration
}

// glance is how often it is looked.
const glance = 25 * time.Millisecond

func watchEngines(t *testing.T, root string) *engines {
	w := &engines{spans: map[string][]span{}}
	stop, stopped := make(chan struct{}), make(chan struct{})
	t.Cleanup(func() {
		close(stop)
		<-stopped
	})
	go func() {
		defer close(stopped)
		tick := time.NewTicker(glance)
		defer tick.Stop()
		for {
			w.look(root)
			select {
			case <-tick.C:
			case <-stop:
				return
			}
		}
	}()
	return w
}

func (w *engines) look(root string) {
	ids := enginesOf(root)
	w.mu.Lock()
	defer w.mu.Unlock()
	now := time.Now()
	for _, id := range ids {
		spans := w.spans[id]
		if n := len(spans); n > 0 && !spans[n-1].to.Before(w.last) {
			spans[n-1].to = now
		} else {
			w.spans[id] = append(spans, span{now, now})
		}
	}
	if !w.last.IsZero() {
		w.gap = max(w.gap, now.Sub(w.last)) // of a machine that is busy, the longest without a look
	}
	w.last = now
}

// enginesOf lists the sandboxes whose engine is among the processes.
func enginesOf(root string) (ids []string) {
	lines, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, name := range lines {
		b, err := os.ReadFile(name)
		if err != nil || !bytes.HasPrefix(b, []byte("runsc-sandbox\x00")) || !bytes.Contains(b, []byte("--root="+root+"/")) {
			continue
		}
		args := strings.Split(strings.TrimRight(string(b), "\x00"), "\x00")
		ids = append(ids, args[len(args)-1])
	}
	return ids
}
