package server

import (
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
	"unicode/utf8"

	"github.com/matryer/is"
)

func TestTicketIsGoodOnce(t *testing.T) {
	is := is.New(t)
	all := newTickets()
	want := grant{principal: principal{Org: "acme", User: "ada"}, id: "x", what: previewTicket, port: 80}
	ticket := all.mint(want)
	is.Equal(len(ticket), 43)
	var winners atomic.Int32
	var wg sync.WaitGroup
	for range 50 {
		wg.Go(func() {
			if g, ok := all.take(ticket); ok && g == want {
				winners.Add(1)
			}
		})
	}
	wg.Wait()
	is.Equal(winners.Load(), int32(1))
	_, ok := all.take("")
	is.True(!ok)
}

func TestTicketLife(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		is := is.New(t)
		all := newTickets()
		young, old := all.mint(grant{}), all.mint(grant{})
		time.Sleep(ticketLife - time.Nanosecond)
		_, ok := all.take(young)
		is.True(ok) // a moment before
		time.Sleep(time.Nanosecond)
		_, ok = all.take(old)
		is.True(!ok) // at the end
		for range 1000 {
			all.mint(grant{})
		}
		time.Sleep(ticketLife)
		all.mint(grant{})
		is.Equal(len(all.held), 1) // the others are forgotten
	})
}

func TestSeal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		is := is.New(t)
		s := newSeal()
		until := time.Now().Add(previewLife)
		cookie := s.close(&pass{ID: "x", Port: 80, Until: until.Unix(), Org: "acme"})
		p, ok := s.open(cookie)
		is.True(ok)
		is.Equal(p.Org, "acme")
		for i := range cookie {
			b := []byte(cookie)
			b[i] ^= 4
			if _, ok := s.open(string(b)); ok {
				t.Errorf("byte %d does not matter", i)
			}
		}
		_, ok = newSeal().open(cookie)
		is.True(!ok) // of another server
		time.Sleep(previewLife - time.Second)
		_, ok = s.open(cookie)
		is.True(ok)
		time.Sleep(time.Second)
		_, ok = s.open(cookie)
		is.True(!ok) // 12 hours on
	})
}

func TestCloseReason(t *testing.T) {
	is := is.New(t)
	is.Equal(closeReason("terminal closed"), "terminal closed")
	for n := range 8 {
		long := strings.Repeat("x", 118+n) + "漢字漢字"
		cut := closeReason(long)
		is.True(len(cut) <= maxReason && len(cut) > maxReason-3)
		is.True(utf8.ValidString(cut) && strings.HasPrefix(long, cut))
	}
	is.True(utf8.ValidString(closeReason("\xff\xfe")))
}

func TestResizeMessage(t *testing.T) {
	for text, want := range map[string][2]uint16{
		`{"resize":{"cols":132,"rows":50}}`:        {50, 132},
		`{"resize":{"cols":1,"rows":1}}`:           {1, 1},
		`{"resize":{"cols":65535,"rows":65535}}`:   {maxSide, maxSide},
		`{"resize":{"cols":65536,"rows":1}}`:       {},
		`{"resize":{"cols":0,"rows":1}}`:           {},
		`{"resize":{"cols":-1,"rows":1}}`:          {},
		`{"resize":{"cols":1.5,"rows":1}}`:         {},
		`{"resize":{"cols":01,"rows":1}}`:          {},
		` {"resize":{"cols":80,"rows":24}}`:        {},
		`{"resize": {"cols":80,"rows":24}}`:        {},
		`{"resize":{"cols":80,"rows":24}} `:        {},
		"{\"resize\":{\"cols\":80,\"rows\":24}}\n": {},
		`{"resize":{"cols":80,"rows":24,"x":1}}`:   {},
		`{"resize":{"cols":80,"rows":24},"x":1}`:   {},
		`{"resize":{"cols":null,"rows":24}}`:       {},
		`{"resize":{"cols":"80","rows":24}}`:       {},
		`{"resize":null}`:                          {},
		`{`:                                        {},
		``:                                         {},
	} {
		rows, cols, ok := resize([]byte(text))
		if (rows != want[0] || cols != want[1]) || ok != (want[0] > 0) {
			t.Errorf("%q is %d rows, %d columns, %v", text, rows, cols, ok)
		}
	}
}

func TestPastAsksNothing(t *testing.T) {
	is := is.New(t)
	s := newSession(true)
	s.Write([]byte("\x1b[32mgreen\x1b[0m\x1b[c\x1b[>0c\x1b[6n\x1b[?1$p\x1b]11;?\x07\x1b]10;?\x1b\\\x1b[>q\x1bP+q544e\x1b\\\x05 end"))
	v := s.join()
	is.Equal(string(v.replay), "\x1b[32mgreen\x1b[0m end")
}

// TestPastIsBounded has a session keep its last, from the beginning of a line.
func TestPastIsBounded(t *testing.T) {
	is := is.New(t)
	s := newSession(true)
	line := []byte(strings.Repeat("é", 400) + "\r\n")
	for range 10_000 {
		s.Write(line)
	}
	is.True(cap(s.kept) < 8<<20)
	v := s.join()
	is.True(len(v.replay) > scrollback/2 && len(v.replay) <= scrollback)
	is.True(strings.HasPrefix(string(v.replay), "é") && utf8.Valid(v.replay))
}
