package server_test

import (
	"context"
	"log/slog"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/matryer/is"

	"github.com/hanzoai/sandbox/exec"
	"github.com/hanzoai/sandbox/internal/runtimetest"
	"github.com/hanzoai/sandbox/sandbox"
	"github.com/hanzoai/sandbox/server"
	"github.com/hanzoai/sandbox/server/store"
)

func ledger(t *testing.T) *store.Store { return storeIn(t, t.TempDir()) }

func storeIn(t *testing.T, root string) *store.Store {
	t.Helper()
	s, err := store.Open(t.Context(), root)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

func cents(t *testing.T, s *store.Store, org string) int64 {
	t.Helper()
	amount, err := s.Balance(context.Background(), org)
	if err != nil {
		t.Fatal(err)
	}
	return amount / server.Cent
}

const hello = `{"lang":"bash","code":"echo hi"}`

// TestRunsCost has a run be charged when it has been had, and only then.
func TestRunsCost(t *testing.T) {
	is := is.New(t)
	l := ledger(t)
	c := newChat(t, server.Config{Ledger: l, Fees: server.Fees{Run: 3}})
	is.Equal(c.send("POST", "/v1/exec", "application/json", strings.NewReader(hello)).StatusCode, 200)
	is.Equal(cents(t, l, "default"), int64(-3)) // postpaid: it is recorded
	is.Equal(c.send("POST", "/v1/exec", "application/json", strings.NewReader(`{"lang":"bash","code":"exit 1"}`)).StatusCode, 200)
	is.Equal(cents(t, l, "default"), int64(-6)) // a program that fails has been run
	is.Equal(c.send("POST", "/v1/exec", "application/json", strings.NewReader(`{"lang":"cobol","code":"x"}`)).StatusCode, 400)
	is.Equal(c.send("POST", "/v1/exec", "application/json", strings.NewReader(`{`)).StatusCode, 400)
	is.Equal(cents(t, l, "default"), int64(-6)) // what was not run costs nothing
	usage, err := l.Usage(t.Context(), "default", time.Time{})
	is.NoErr(err)
	is.Equal(usage[0].Kind, "run")
	is.Equal(usage[0].Count, int64(2))
}

func TestPrepaid(t *testing.T) {
	is := is.New(t)
	l := ledger(t)
	c := newChat(t, server.Config{Ledger: l, Fees: server.Fees{Run: 3, Prepaid: true}})
	is.Equal(c.send("POST", "/v1/exec", "application/json", strings.NewReader(hello)).StatusCode, 402)
	is.Equal(cents(t, l, "default"), int64(0))
	is.NoErr(l.Credit(t.Context(), "x", "default", 5))
	is.Equal(c.send("POST", "/v1/exec", "application/json", strings.NewReader(hello)).StatusCode, 200)
	is.Equal(c.send("POST", "/v1/exec", "application/json", strings.NewReader(hello)).StatusCode, 402) // 2 do not cover 3
	is.Equal(cents(t, l, "default"), int64(2))
}

// TestPrepaidAtOnce asks for more at once than is paid for, on the real engine:
// as much is had as the balance covers, and what fails gives back its fee.
func TestPrepaidAtOnce(t *testing.T) {
	is := is.New(t)
	l := ledger(t)
	fees := server.Fees{Run: 1, Lease: map[string]int64{"dev": 10}, Prepaid: true}
	meter := server.NewMeter(l, fees, slog.New(slog.NewTextHandler(t.Output(), nil)))
	rt := runtimetest.New(t, sandbox.Config{Events: meter.Event})
	meter.Opened()
	sandboxes := server.Runtime(rt)
	it, err := exec.New(rt, exec.Config{})
	is.NoErr(err)
	d := newDesk(t, server.Config{
		Sandboxes: sandboxes, Ledger: l, Fees: fees, Interpreter: server.Interpret(it, server.Gated(l, fees, sandboxes)),
	})
	atOnce := func(path, body string, good int) (n int) {
		answers := make(chan int)
		for i := range 16 {
			body := strings.ReplaceAll(body, "COUNT", strconv.Itoa(i))
			go func() { answers <- d.send(t.Context(), http.MethodPost, path, body).StatusCode }()
		}
		for range 16 {
			switch status := <-answers; status {
			case good:
				n++
			case http.StatusPaymentRequired:
			default:
				t.Errorf("%s: %d", path, status)
			}
		}
		return n
	}
	is.NoErr(l.Credit(t.Context(), "one", "acme", 1))
	is.Equal(d.send(t.Context(), http.MethodPost, "/v1/exec", `{"lang":"cobol","code":"x"}`).StatusCode, 400)
	is.Equal(cents(t, l, "acme"), int64(1))
	is.Equal(atOnce("/v1/exec", `{"lang":"bash","code":"sleep 1"}`, 200), 1)
	is.Equal(cents(t, l, "acme"), int64(0))
	is.NoErr(l.Credit(t.Context(), "two", "acme", 21))
	is.Equal(atOnce("/v1/sandbox", `{"class":"dev","project":"pCOUNT"}`, 201), 2)
	is.Equal(cents(t, l, "acme"), int64(1))
}

// TestLeasesArePrepaid asks for what the balance does not cover by every door
// that leases: nothing is leased.
func TestLeasesArePrepaid(t *testing.T) {
	is := is.New(t)
	l, m := ledger(t), newMemory(t)
	fees := server.Fees{Lease: map[string]int64{"exec": 10}, Prepaid: true}
	d := newDesk(t, server.Config{Sandboxes: m.For, Interpreter: shell{m, server.Gated(l, fees, m.For)}})
	poor := *d
	poor.url = start(t, server.Config{
		Sandboxes: m.For, Keys: d.keys, Ledger: l, Fees: fees, Interpreter: shell{m, server.Gated(l, fees, m.For)},
	}).URL
	var parked struct{ ID string }
	d.post("/v1/sandbox/lease", `{"disk":true}`, &parked)
	is.Equal(d.send(t.Context(), "POST", "/v1/sandbox/"+parked.ID+"/pause", "").StatusCode, 200)
	live := len(m.leased)
	form := "--b\r\nContent-Disposition: form-data; name=\"file\"; filename=\"a\"\r\n\r\nx\r\n--b--\r\n"
	for path, body := range map[string]string{
		"/v1/sandbox": `{}`, "/v1/sandbox/lease": `{}`, "/v1/sandbox/" + parked.ID + "/resume": ``, "/v1/exec": hello, "/v1/exec/exec": hello,
	} {
		is.Equal(poor.send(t.Context(), "POST", path, body).StatusCode, 402)
	}
	is.Equal(poor.sendAs(t.Context(), "/v1/upload", form, "multipart/form-data; boundary=b").StatusCode, 402)
	is.Equal(len(m.leased), live)
	same := object("lang", "bash", "code", "echo hi", "session_id", d.id)
	is.Equal(poor.send(t.Context(), "POST", "/v1/exec", same).StatusCode, 200) // what runs already costs no lease
	is.NoErr(l.Credit(t.Context(), "x", "acme", 10))
	is.Equal(poor.send(t.Context(), "POST", "/v1/exec", hello).StatusCode, 200)
}

// TestMeter tells the events of a life, each twice, as after a crash.
func TestMeter(t *testing.T) {
	is := is.New(t)
	l := ledger(t)
	fees := server.Fees{Lease: map[string]int64{"exec": 10}, Hour: map[string]int64{"": 3600}}
	m := server.NewMeter(l, fees, slog.New(slog.NewTextHandler(t.Output(), nil)))
	m.Opened()
	begin := time.Unix(1_790_000_000, 0)
	info := sandbox.Info{ID: "x", Owner: sandbox.Owner{Org: "acme", Actor: "ada"}, Class: "exec", Expires: begin.Add(time.Hour)}
	generation := uint64(0)
	tell := func(kind sandbox.EventKind, after time.Duration) {
		generation++
		for range 2 {
			m.Event(sandbox.Event{ID: "x", Generation: generation, Kind: kind, Time: begin.Add(after), Info: info})
		}
	}
	tell(sandbox.EventLeased, 0)
	is.Equal(cents(t, l, "acme"), int64(0)) // one that does not start costs nothing
	tell(sandbox.EventRunning, 0)
	is.Equal(cents(t, l, "acme"), int64(-10))
	is.NoErr(l.Advance(t.Context(), []string{"x"}, begin.Add(5*time.Second)))
	tell(sandbox.EventPaused, 8*time.Second)
	is.Equal(cents(t, l, "acme"), int64(-18))
	is.NoErr(l.Advance(t.Context(), []string{"x"}, begin.Add(100*time.Second)))
	is.Equal(cents(t, l, "acme"), int64(-18)) // nothing accrues
	tell(sandbox.EventResumed, 200*time.Second)
	tell(sandbox.EventEnded, 210*time.Second)
	is.Equal(cents(t, l, "acme"), int64(-28))

	info.Owner = sandbox.Owner{}
	tell(sandbox.EventRunning, 0) // the server's own
	is.Equal(cents(t, l, ""), int64(0))

	info.ID, info.Owner = "y", sandbox.Owner{Org: "late"}
	late := func(kind sandbox.EventKind, at time.Time) {
		generation++
		m.Event(sandbox.Event{ID: "y", Generation: generation, Kind: kind, Time: at, Info: info})
	}
	late(sandbox.EventRunning, begin)
	late(sandbox.EventEnded, begin.Add(24*time.Hour)) // noticed a day after its lease was over
	is.Equal(cents(t, l, "late"), int64(-10-3600))
}

// TestMeterOpens tells what a Runtime finds when it opens: a pause that had
// been told to the row alone, an end that it finishes itself, and a lease that
// ran out meanwhile.
func TestMeterOpens(t *testing.T) {
	is := is.New(t)
	l := ledger(t)
	fees := server.Fees{Hour: map[string]int64{"": 3600}}
	began := time.Now().Add(-time.Hour).Truncate(time.Second)
	before := server.NewMeter(l, fees, slog.New(slog.DiscardHandler))
	before.Opened()
	event := func(m *server.Meter, id string, n uint64, kind sandbox.EventKind, at time.Time) {
		m.Event(sandbox.Event{ID: id, Generation: n, Kind: kind, Time: at, Info: sandbox.Info{
			ID: id, Owner: sandbox.Owner{Org: id}, Class: "exec", Expires: began.Add(30 * time.Minute),
		}})
	}
	ids := []string{"paused", "ended", "expired"}
	for _, id := range ids {
		event(before, id, 1, sandbox.EventRunning, began)
	}
	is.NoErr(l.Advance(t.Context(), ids, began.Add(10*time.Second)))
	after := server.NewMeter(l, fees, slog.New(slog.DiscardHandler))
	event(after, "paused", 2, sandbox.EventPaused, began.Add(15*time.Second))
	event(after, "expired", 2, sandbox.EventEnded, time.Now())
	is.Equal(cents(t, l, "paused"), int64(-15))     // as it was
	is.Equal(cents(t, l, "expired"), int64(-30*60)) // until its end
	longer := sandbox.Info{ID: "ended", Owner: sandbox.Owner{Org: "ended"}, Class: "exec", Expires: time.Now().Add(time.Hour)}
	after.Event(sandbox.Event{ID: "ended", Generation: 2, Kind: sandbox.EventEnded, Time: time.Now(), Info: longer})
	is.Equal(cents(t, l, "ended"), int64(-10)) // not for the time in which nobody served
}
