package server_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hanzoai/sandbox/client"
	"github.com/hanzoai/sandbox/internal/runtimetest"
	"github.com/hanzoai/sandbox/sandbox"
	"github.com/hanzoai/sandbox/server"
)

// A pair is one sandbox, by the library and over HTTP.
type pair struct {
	here, there *sandbox.Sandbox
	url, key    string
}

func newPair(b *testing.B) *pair {
	rt := runtimetest.New(b, sandbox.Config{})
	keys := keyring{}
	s := start(b, server.Config{Sandboxes: server.Runtime(rt), Keys: keys, Limits: server.Limits{Rate: 1e9, Burst: 1e9, OrgRuns: 256, FileBody: 4 << 30}})
	p := &pair{url: s.URL, key: keys.add("acme", "ada", false)}
	remote, err := client.New(s.URL, client.Config{Key: p.key})
	if err != nil {
		b.Fatal(err)
	}
	if p.there, err = remote.Lease(b.Context(), sandbox.Spec{Disk: true}); err != nil {
		b.Fatal(err)
	}
	p.here = sandbox.Handle(rt.For(sandbox.Owner{Org: "acme", Actor: "ada"}), p.there.ID())
	return p
}

func (p *pair) exec(ctx context.Context, argv ...string) error {
	body, err := json.Marshal(map[string]any{"argv": argv})
	if err != nil {
		return err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, p.url+"/v1/sandbox/"+p.there.ID()+"/exec", strings.NewReader(string(body)))
	if err != nil {
		return err
	}
	req.Header.Set("Authorization", "Bearer "+p.key)
	req.Header.Set("Content-Type", "application/json")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if _, err := io.Copy(io.Discard, resp.Body); err != nil || resp.StatusCode != http.StatusOK {
		return fmt.Errorf("status %d: %w", resp.StatusCode, err)
	}
	return nil
}

func timed(b *testing.B, f func() error) time.Duration {
	b.Helper()
	begin := time.Now()
	if err := f(); err != nil {
		b.Fatal(err)
	}
	return time.Since(begin)
}

func median(list []time.Duration) float64 {
	slices.Sort(list)
	return float64(list[len(list)/2].Microseconds()) / 1000
}

// BenchmarkExec has the three ways take turns.
func BenchmarkExec(b *testing.B) {
	p := newPair(b)
	ways := []func() error{
		func() error { return p.here.Command("/bin/true").Run(b.Context()) },
		func() error { return p.exec(b.Context(), "/bin/true") },
		func() error { return p.there.Command("/bin/true").Run(b.Context()) },
	}
	times := make([][]time.Duration, len(ways))
	for b.Loop() {
		for i, way := range ways {
			times[i] = append(times[i], timed(b, way))
		}
	}
	library := median(times[0])
	b.ReportMetric(library, "library-ms")
	b.ReportMetric(median(times[1])-library, "http-adds-ms")
	b.ReportMetric(median(times[2])-library, "socket-adds-ms")
}

// BenchmarkGets asks for a sandbox's description from many sides.
func BenchmarkGets(b *testing.B) {
	p := newPair(b)
	c := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 64}}
	b.SetParallelism(8)
	b.ResetTimer()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			req, err := http.NewRequest(http.MethodGet, p.url+"/v1/sandbox/"+p.there.ID(), nil)
			if err != nil {
				b.Error(err)
				return
			}
			req.Header.Set("Authorization", "Bearer "+p.key)
			resp, err := c.Do(req)
			if err != nil {
				b.Error(err)
				return
			}
			io.Copy(io.Discard, resp.Body)
			resp.Body.Close()
		}
	})
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "gets/s")
}

const fileSize = 1 << 30

// zeros is a file that costs nothing to make.
type zeros struct{}

func (zeros) Read(p []byte) (int, error) { clear(p); return len(p), nil }

// BenchmarkFiles moves a file of 1 GiB each way, by the library and over HTTP.
func BenchmarkFiles(b *testing.B) {
	p := newPair(b)
	var up, down [2]time.Duration
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for b.Loop() {
		for i, sb := range []*sandbox.Sandbox{p.here, p.there} {
			if err := sb.RemoveAll(b.Context(), "large"); err != nil { // the disk has no place for two
				b.Fatal(err)
			}
			up[i] += timed(b, func() error {
				return sb.WriteFile(b.Context(), "large", io.LimitReader(zeros{}, fileSize), 0o644)
			})
			down[i] += timed(b, func() error {
				f, err := sb.FS(b.Context()).Open("large")
				if err != nil {
					return err
				}
				defer f.Close()
				n, err := io.CopyBuffer(struct{ io.Writer }{io.Discard}, struct{ io.Reader }{f}, make([]byte, 256<<10))
				if n != fileSize {
					err = errors.Join(err, fmt.Errorf("%d bytes", n))
				}
				return err
			})
		}
	}
	runtime.ReadMemStats(&after)
	rate := func(d time.Duration) float64 { return float64(b.N) * fileSize / 1e6 / d.Seconds() }
	b.ReportMetric(rate(up[1]), "up-MB/s")
	b.ReportMetric(up[0].Seconds()/up[1].Seconds(), "up-ratio")
	b.ReportMetric(rate(down[1]), "down-MB/s")
	b.ReportMetric(down[0].Seconds()/down[1].Seconds(), "down-ratio")
	b.ReportMetric(float64(after.Sys-before.Sys)/(1<<20), "grown-MiB")
}

// BenchmarkParallel runs 64 commands at a time.
func BenchmarkParallel(b *testing.B) {
	p := newPair(b)
	all := func(run func() error) time.Duration {
		return timed(b, func() error {
			var wg sync.WaitGroup
			errs := make([]error, 64)
			for i := range errs {
				wg.Go(func() { errs[i] = run() })
			}
			wg.Wait()
			return errors.Join(errs...)
		})
	}
	var here, there []time.Duration
	for b.Loop() {
		here = append(here, all(func() error { return p.here.Command("/bin/true").Run(b.Context()) }))
		there = append(there, all(func() error { return p.exec(b.Context(), "/bin/true") }))
	}
	b.ReportMetric(median(here), "library-ms")
	b.ReportMetric(median(there)/median(here), "ratio")
}
