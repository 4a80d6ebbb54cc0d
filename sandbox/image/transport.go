package image

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"syscall"
	"time"

	"github.com/hanzoai/sandbox/sandbox"
)

// newTransport returns a transport that gives up on a registry which says
// nothing for some time. With public it speaks to public addresses alone: who
// may name any registry must not reach the services of this network by it, nor
// by where a registry sends its clients.
//
// A proxy that this process is told to use is used for the registries that are
// listed, and for others only if its own address is public.
func newTransport(stall time.Duration, public bool) *stallTransport {
	dialer := &net.Dialer{Timeout: stall}
	if public {
		dialer.Control = publicOnly
	}
	return &stallTransport{limit: stall, Transport: &http.Transport{
		Proxy:                 http.ProxyFromEnvironment,
		DialContext:           dialer.DialContext,
		TLSHandshakeTimeout:   stall,
		ResponseHeaderTimeout: stall,
		MaxIdleConnsPerHost:   layersAtOnce,
		IdleConnTimeout:       stall,
		ForceAttemptHTTP2:     true,
		DisableCompression:    true,
	}}
}

func publicOnly(_, address string, _ syscall.RawConn) error {
	at, err := netip.ParseAddrPort(address)
	if err != nil {
		return err
	}
	if !isPublic(at.Addr().Unmap()) {
		return fmt.Errorf("%s is not a public address, and its registry is not listed", at.Addr())
	}
	return nil
}

// notPublic are addresses that are unicast and not private by name, but reach
// no registry of the world: see RFC 6890.
var notPublic = []netip.Prefix{
	netip.MustParsePrefix("0.0.0.0/8"),
	netip.MustParsePrefix("100.64.0.0/10"),
	netip.MustParsePrefix("192.0.0.0/24"),
	netip.MustParsePrefix("198.18.0.0/15"),
	netip.MustParsePrefix("240.0.0.0/4"),
	netip.MustParsePrefix("64:ff9b::/96"), // an IPv4 address in IPv6, whichever
	netip.MustParsePrefix("64:ff9b:1::/48"),
	netip.MustParsePrefix("2002::/16"),
}

func isPublic(a netip.Addr) bool {
	if !a.IsGlobalUnicast() || a.IsPrivate() {
		return false
	}
	for _, p := range notPublic {
		if p.Contains(a) {
			return false
		}
	}
	return true
}

// stallTransport ends a response whose body stops coming.
type stallTransport struct {
	*http.Transport
	limit time.Duration
}

func (t *stallTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	ctx, cancel := context.WithCancelCause(r.Context())
	resp, err := t.Transport.RoundTrip(r.WithContext(ctx))
	if err != nil {
		cancel(nil)
		return nil, err
	}
	body := &stallBody{ReadCloser: resp.Body, ctx: ctx, cancel: cancel, limit: t.limit}
	body.timer = time.AfterFunc(t.limit, func() { cancel(&stallError{t.limit}) })
	body.timer.Stop() // it runs while somebody waits
	resp.Body = body
	return resp, nil
}

type stallBody struct {
	io.ReadCloser
	ctx    context.Context //nolint:containedctx // the request's own
	cancel context.CancelCauseFunc
	limit  time.Duration
	timer  *time.Timer
}

func (b *stallBody) Read(p []byte) (int, error) {
	b.timer.Reset(b.limit)
	n, err := b.ReadCloser.Read(p)
	b.timer.Stop()
	if b.ctx.Err() != nil {
		return n, context.Cause(b.ctx)
	}
	return n, err
}

// Close ends a Read that is under way, too.
func (b *stallBody) Close() error {
	b.timer.Stop()
	b.cancel(errBodyClosed)
	return b.ReadCloser.Close()
}

var errBodyClosed = fmt.Errorf("response: %w", net.ErrClosed)

// stallError is a registry that says nothing.
type stallError struct{ limit time.Duration }

func (e *stallError) Error() string {
	return fmt.Sprintf("the registry has said nothing for %v", e.limit)
}

func (e *stallError) Unwrap() error { return sandbox.ErrTimeout }
