package main

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/matryer/is"

	"github.com/hanzoai/sandbox/client"
	"github.com/hanzoai/sandbox/sandbox"
	"github.com/hanzoai/sandbox/server"
	"github.com/hanzoai/sandbox/server/store"
)

const moneyKey = "sk-a-key-of-a-test-of-money"

// business is what goes on at a server that is killed, and what is known of
// it from the outside.
type business struct {
	url atomic.Pointer[string]

	mu            sync.Mutex
	seen          map[string][]time.Time // when a sandbox was known to run
	asked, runs   int                    // runs that were asked for, and were answered
	leases, pause int

	down   []span        // when nobody served
	leased chan struct{} // has one after a lease
}

func (b *business) remote(t *testing.T) *client.Remote {
	r, err := client.New(*b.url.Load(), client.Config{Key: moneyKey})
	if err != nil {
		t.Error(err)
	}
	return r
}

func (b *business) runsNow(id string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.seen[id] = append(b.seen[id], time.Now())
}

// live leases a sandbox, uses it, and mostly ends it. Any call can fail, as
// the server may be gone; the sandbox is then whatever it is.
func (b *business) live(t *testing.T, pauses bool) {
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	sb, err := b.remote(t).Lease(ctx, sandbox.Spec{Disk: true, TTL: time.Hour})
	if err != nil {
		return
	}
	b.runsNow(sb.ID())
	b.count(&b.leases)
	select {
	case b.leased <- struct{}{}:
	default:
	}
	if pauses && sb.Pause(ctx) == nil {
		b.count(&b.pause)
	}
	for range 1 + rand.IntN(4) {
		sb = sandbox.Handle(b.remote(t), sb.ID()) // at the server that there is by now
		switch rand.IntN(3) {
		case 0:
			if sb.Command("sleep", strconv.FormatFloat(rand.Float64(), 'f', 2, 64)).Run(ctx) == nil {
				b.runsNow(sb.ID())
			}
		case 1:
			if sb.Pause(ctx) == nil {
				b.count(&b.pause)
			}
		case 2:
			if sb.Resume(ctx) == nil {
				b.runsNow(sb.ID())
			}
		}
	}
	if rand.IntN(4) > 0 {
		sandbox.Handle(b.remote(t), sb.ID()).End(ctx) //nolint:errcheck // the last server does
	}
}

func (b *business) count(n *int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	*n++
}

// run asks for a run of the code interpreter, in the session of the last one,
// and returns its session.
func (b *business) run(t *testing.T, session string) string {
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, *b.url.Load()+"/v1/exec", strings.NewReader(`{"lang":"bash","code":"echo hi","session_id":"`+session+`"}`))
	if err != nil {
		t.Error(err)
		return session
	}
	req.Header.Set("Authorization", "Bearer "+moneyKey)
	req.Header.Set("Content-Type", "application/json")
	b.count(&b.asked)
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return session
	}
	defer resp.Body.Close()
	var out struct {
		Session string `json:"session_id"`
	}
	if resp.StatusCode == http.StatusOK && json.NewDecoder(resp.Body).Decode(&out) == nil {
		b.count(&b.runs)
		return out.Session
	}
	return session
}

// work does business until it is over. After a failure it takes a breath: a
// server that is not there refuses faster than it starts.
func (b *business) work(t *testing.T, over <-chan struct{}, alsoRuns bool) {
	session := ""
	for last := false; ; {
		if alsoRuns {
			session = b.run(t, session)
		}
		b.live(t, !alsoRuns)
		if last {
			return
		}
		select {
		case <-over:
			last = true // once more, with a server that stays
		case <-time.After(20 * time.Millisecond):
		}
	}
}

func moneyDaemon(t *testing.T, root string) *process {
	return startDaemon(t, root, "SANDBOXD_KEY="+moneyKey, "SANDBOXD_CHARGE=300ms", "CODE_EXEC_FEE_CENTS=3",
		"SANDBOX_FEE_CENTS=10", "SANDBOX_HOUR_CENTS=3600")
}

// kills is how often the server is killed.
func kills() int {
	if os.Getenv("SANDBOX_SOAK") != "" {
		return 40
	}
	return 5
}

// TestKilledServersMoney kills a server with SIGKILL again and again while
// sandboxes are leased, paused, resumed and ended in it. In the end its ledger
// has each second of each engine once, as the machine's own processes tell,
// and each run at most once.
func TestKilledServersMoney(t *testing.T) {
	is := is.New(t)
	if testing.Short() {
		t.Skip("it kills processes for half a minute")
	}
	root := t.TempDir()
	watch := watchEngines(t, root)
	p := moneyDaemon(t, root)
	over := make(chan struct{})
	b := &business{seen: map[string][]time.Time{}, leased: make(chan struct{}, 1)}
	b.url.Store(&p.url)
	var workers sync.WaitGroup
	for i := range 3 {
		workers.Go(func() { b.work(t, over, i == 0) })
	}
	for range kills() {
		select { // something is going on
		case <-b.leased:
		case <-time.After(30 * time.Second):
		}
		select { // the moment of death is anybody's guess
		case <-time.After(rand.N(3 * time.Second)):
		case err := <-p.err:
			t.Fatal("the server ended by itself: ", err)
		}
		killed := time.Now()
		is.NoErr(p.cmd.Process.Signal(syscall.SIGKILL))
		<-p.err
		p = moneyDaemon(t, root)
		b.down = append(b.down, span{killed, time.Now()})
		b.url.Store(&p.url)
	}
	close(over)
	workers.Wait() // what was asked for has been answered
	endAll(t, p, moneyKey)
	is.NoErr(p.stop(t))
	t.Logf("it was looked every %v at most; %d leases, %d pauses and %d of %d runs were answered", watch.gap, b.leases, b.pause, b.runs, b.asked)
	is.True(b.leases > 0 && b.pause > 0)
	b.audit(t, root, watch)
}

// TestKilledServerHoldsNothing kills a server with SIGKILL in the middle of a
// run that all the money is reserved for. The next one has it to spend.
func TestKilledServerHoldsNothing(t *testing.T) {
	is := is.New(t)
	root := t.TempDir()
	_, err := output(t, root, nil, "ledger", "credit", "--org", "default", "3")
	is.NoErr(err)
	prepaid := func() *process {
		return startDaemon(t, root, "SANDBOXD_KEY="+moneyKey, "CODE_EXEC_FEE_CENTS=3", "SANDBOXD_BILLING=prepaid")
	}
	run := func(p *process, code string) (int, error) {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, p.url+"/v1/exec", strings.NewReader(`{"lang":"bash","code":"`+code+`"}`))
		if err != nil {
			return 0, err
		}
		req.Header = http.Header{"Authorization": {"Bearer " + moneyKey}, "Content-Type": {"application/json"}}
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			return 0, err
		}
		return resp.StatusCode, resp.Body.Close()
	}
	p := prepaid()
	cut := make(chan error, 1)
	go func() {
		_, err := run(p, "sleep 600")
		cut <- err
	}()
	reserved(t, root)
	status, err := run(p, "echo hi")
	is.NoErr(err)
	is.Equal(status, http.StatusPaymentRequired)
	is.NoErr(p.cmd.Process.Signal(syscall.SIGKILL))
	<-p.err
	is.True(<-cut != nil)

	p = prepaid()
	status, err = run(p, "echo hi")
	is.NoErr(err)
	is.Equal(status, http.StatusOK)
	endAll(t, p, moneyKey)
	is.NoErr(p.stop(t))
	balance, err := output(t, root, nil, "ledger", "balance", "--org", "default")
	is.NoErr(err)
	is.Equal(balance, "0\n")
}

// reserved waits until something is.
func reserved(t *testing.T, root string) {
	t.Helper()
	is := is.New(t)
	db, err := sql.Open("sqlite", "file:"+filepath.Join(root, store.FileName)+"?mode=ro")
	is.NoErr(err)
	defer db.Close()
	late := time.After(30 * time.Second)
	for n := 0; n == 0; {
		is.NoErr(db.QueryRowContext(t.Context(), "SELECT COUNT(*) FROM reservations").Scan(&n))
		select {
		case <-late:
			t.Fatal("nothing is reserved")
		case <-time.After(glance):
		}
	}
}

// audit compares the ledger with what was seen.
func (b *business) audit(t *testing.T, root string, watch *engines) {
	t.Helper()
	is := is.New(t)
	db, err := sql.Open("sqlite", "file:"+filepath.Join(root, store.FileName)+"?mode=ro")
	is.NoErr(err)
	defer db.Close()
	ask := func(query string, arg ...any) (n int64) {
		t.Helper()
		is.NoErr(db.QueryRowContext(context.Background(), "SELECT COALESCE("+query+", 0)", arg...).Scan(&n))
		return n
	}
	is.Equal(ask("(SELECT COUNT(*) FROM spans WHERE closed = 0)"), int64(0))
	is.Equal(ask("(SELECT SUM(amount) FROM entries)"), -ask("(SELECT amount FROM balances WHERE org = 'default')"))
	is.Equal(ask("(SELECT SUM(amount) FROM entries WHERE kind = 'runtime')"), ask("(SELECT SUM(seconds) FROM entries WHERE kind = 'runtime')")*server.Cent)
	runs := ask("(SELECT COUNT(*) FROM entries WHERE kind = 'run')")
	is.True(runs >= int64(b.runs) && runs <= int64(b.asked)) // none twice, and none that was had is missing
	noSecondTwice(t, db)

	rows, err := db.QueryContext(context.Background(), "SELECT DISTINCT sandbox FROM entries WHERE kind <> 'run'")
	is.NoErr(err)
	defer rows.Close()
	for rows.Next() { // what was billed and not seen is a sandbox too
		var id string
		is.NoErr(rows.Scan(&id))
		watch.spans[id] = append([]span{}, watch.spans[id]...)
	}
	is.NoErr(rows.Err())
	for id, spans := range watch.spans {
		seconds := ask("(SELECT SUM(seconds) FROM entries WHERE kind = 'runtime' AND sandbox = ?)", id)
		least, most := b.bounds(spans, b.seen[id], watch.gap)
		if float64(seconds) < least || float64(seconds) > most {
			t.Errorf("sandbox %s: %d seconds are billed, of %.1f to %.1f: %v", id, seconds, least, most, spans)
		}
		if leases := ask("(SELECT COUNT(*) FROM entries WHERE kind = 'lease' AND sandbox = ?)", id); leases > 1 || leases == 0 && len(b.seen[id]) > 0 {
			t.Errorf("sandbox %s: its lease is billed %d times", id, leases)
		}
	}
	is.True(ask("(SELECT SUM(seconds) FROM entries WHERE kind = 'runtime')") > 0)
}

const (
	// slack is how long an engine can be seen that has not begun to be
	// billed: it is started.
	slack = 2500 * time.Millisecond
	// late is how long after an engine's end it is noted: its volume is
	// brought to the disk before that.
	late = 500 * time.Millisecond
	// unseen is how long an engine lives at the least, as it has to start.
	unseen = 200 * time.Millisecond
)

// bounds are how many seconds can be billed for what was seen of a sandbox.
// What nobody was told that it runs need not have been a lease: a server was
// killed while it started it. What the next server ended as it came up is
// billed until the last one's death. On a machine that is very busy, one can
// have lived between two looks.
func (b *business) bounds(spans []span, known []time.Time, gap time.Duration) (least, most float64) {
	if gap > unseen {
		most = 1 + (gap + late).Seconds()
	}
	for _, s := range spans {
		most += (s.to.Sub(s.from) + gap + late).Seconds() + 1 // seconds are whole
		end := s.to
		for _, d := range b.down {
			if !end.Before(d.from) && !end.After(d.to.Add(slack)) {
				end = d.from
			}
		}
		for _, at := range known {
			if !at.Before(s.from) && !at.After(s.to.Add(gap)) {
				least += max(0, (end.Sub(s.from)-slack).Seconds()-1)
				break
			}
		}
	}
	return least, most
}

// noSecondTwice looks at the entries of each span side by side. Each begins
// where the one before it ended.
func noSecondTwice(t *testing.T, db *sql.DB) {
	t.Helper()
	is := is.New(t)
	rows, err := db.QueryContext(context.Background(), "SELECT key, seconds FROM entries WHERE kind = 'runtime' ORDER BY sandbox, key")
	is.NoErr(err)
	defer rows.Close()
	end := map[string]int64{}
	for rows.Next() {
		var key string
		var seconds, from int64
		is.NoErr(rows.Scan(&key, &seconds))
		i := strings.LastIndex(key, ":")
		_, err := fmt.Sscan(key[i+1:], &from)
		is.NoErr(err)
		if before, ok := end[key[:i]]; ok {
			is.Equal(from, before)
		}
		end[key[:i]] = from + seconds
	}
	is.NoErr(rows.Err())
}
