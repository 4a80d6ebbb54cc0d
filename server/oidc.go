package server

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"sync"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"

	"github.com/hanzoai/sandbox/internal/problem"
)

// OIDC names an OpenID issuer whose tokens are taken. The zero OIDC takes
// none.
type OIDC struct {
	Issuer   string
	Audience string // required with Issuer: a token for others is no good here
	// OrgClaim names the claim that has the organisation, by default "owner",
	// and AdminClaim one that is true for its administrators, by default none.
	OrgClaim, AdminClaim string
	// HTTPClient fetches the issuer's keys; nil is one with a timeout.
	HTTPClient *http.Client
}

func (o *OIDC) check() error {
	if o.Issuer != "" && o.Audience == "" {
		return errors.New("server: an issuer without an audience would admit tokens that are for others")
	}
	return nil
}

// algorithms are what a token may be signed with: no shared secrets, and
// nothing that the token itself could choose beyond these.
var algorithms = []string{oidc.RS256, oidc.ES256, oidc.EdDSA}

// A verifier checks tokens. It asks the issuer for its keys when it first
// needs them, so that a server starts without it.
type verifier struct {
	cfg    OIDC
	client *http.Client
	log    *slog.Logger

	mu       sync.Mutex
	verifier *oidc.IDTokenVerifier
	tried    time.Time
}

// retryIssuer is how often an issuer that does not answer is asked.
const (
	retryIssuer   = 5 * time.Second
	issuerTimeout = 10 * time.Second
)

// errIssuer is no word on the token.
var errIssuer = problem.New(problem.NotReady, "the issuer of tokens cannot be asked for its keys at the moment")

func newVerifier(cfg OIDC, log *slog.Logger) *verifier {
	v := &verifier{cfg: cfg, client: cfg.HTTPClient, log: log}
	if v.client == nil {
		v.client = &http.Client{Timeout: issuerTimeout}
	}
	return v
}

func (v *verifier) verify(ctx context.Context, token string) (principal, error) {
	checks, err := v.ready(ctx)
	if err != nil {
		return principal{}, err
	}
	t, err := checks.Verify(oidc.ClientContext(ctx, v.client), token)
	if err != nil {
		return principal{}, errBadCredential
	}
	claims := map[string]any{}
	if err := t.Claims(&claims); err != nil {
		return principal{}, errBadCredential
	}
	org, _ := claims[v.cfg.OrgClaim].(string)
	admin, _ := claims[v.cfg.AdminClaim].(bool)
	if t.Subject == "" {
		return principal{}, errBadCredential // whose owner would be the whole organisation
	}
	return principal{Org: org, User: t.Subject, Admin: admin && v.cfg.AdminClaim != "", Name: "user:" + org + "/" + t.Subject}, nil
}

// ready finds the issuer's keys. The lock keeps requests from asking for them
// all at once.
func (v *verifier) ready(ctx context.Context) (*oidc.IDTokenVerifier, error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.verifier != nil {
		return v.verifier, nil
	}
	if time.Since(v.tried) < retryIssuer {
		return nil, errIssuer
	}
	v.tried = time.Now()
	// The provider keeps the context for later fetches: it must not be the
	// request's.
	provider, err := oidc.NewProvider(oidc.ClientContext(context.WithoutCancel(ctx), v.client), v.cfg.Issuer)
	if err != nil {
		v.log.Error("the issuer of tokens does not answer", "issuer", v.cfg.Issuer, "error", err)
		return nil, errIssuer
	}
	v.verifier = provider.Verifier(&oidc.Config{ClientID: v.cfg.Audience, SupportedSigningAlgs: algorithms})
	return v.verifier, nil
}
