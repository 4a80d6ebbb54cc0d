package server

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"net/http"
	"strings"
	"time"

	"github.com/hanzoai/sandbox/internal/problem"
	"github.com/hanzoai/sandbox/sandbox"
)

// A principal is who a request is from.
type principal struct {
	Org   string
	User  string // "" is the organisation itself
	Admin bool   // sees all of Org
	Name  string // of the credential, for limits and the ledger: never its secret
	// Key is the hash of one of our own keys, by which it is seen whether it
	// has been revoked since; zero for other credentials.
	Key [sha256.Size]byte
}

// scope is what the principal sees.
func (p principal) scope() sandbox.Owner {
	if p.Admin {
		return sandbox.Owner{Org: p.Org}
	}
	return p.lessee()
}

// lessee is who owns what the principal leases.
func (p principal) lessee() sandbox.Owner { return sandbox.Owner{Org: p.Org, Actor: p.User} }

type principalKey struct{}

func withPrincipal(ctx context.Context, p principal) context.Context {
	return context.WithValue(ctx, principalKey{}, p)
}

// principalOf returns who has been admitted. It panics on a route that admits
// without asking, where nothing needs one.
func principalOf(ctx context.Context) principal { return ctx.Value(principalKey{}).(principal) }

type hostKey struct{}

// withHost keeps at which host a request was made, for links to this server.
func withHost(ctx context.Context, host string) context.Context {
	return context.WithValue(ctx, hostKey{}, host)
}

// hostOf is "" for what was not asked by HTTP.
func hostOf(ctx context.Context) string {
	host, _ := ctx.Value(hostKey{}).(string)
	return host
}

type admission struct {
	keys    Keys
	oidc    *verifier
	service *[sha256.Size]byte // nil: that door is closed
	brand   string
}

func newAdmission(cfg *Config) *admission {
	a := &admission{keys: cfg.Keys, brand: cfg.Brand}
	if cfg.OIDC.Issuer != "" {
		a.oidc = newVerifier(cfg.OIDC, cfg.Logger)
	}
	if cfg.ServiceKey != "" {
		sum := sha256.Sum256([]byte(cfg.ServiceKey))
		a.service = &sum
	}
	return a
}

var (
	errNoCredential  = problem.New(problem.Unauthorized, "a credential is needed: send Authorization: Bearer with a key")
	errBadCredential = problem.New(problem.Unauthorized, "the credential is not valid")
	errRevoked       = problem.New(problem.Unauthorized, "the key has been revoked")
	errNoOrg         = problem.New(problem.NoOrganisation, "the credential is valid and of no organisation")
)

// tenant is the one place where it is decided who a request is from. It looks
// at the credentials and at nothing else: no header, path or query names an
// organisation. Of two credentials both must be good, and the bearer's
// organisation counts.
func (a *admission) tenant(r *http.Request, d door) (principal, error) {
	bearer, err := bearerOf(r)
	if err != nil {
		return principal{}, err
	}
	var service []string
	if d == execDoor {
		service = r.Header.Values("X-API-Key")
	}
	if bearer == "" && len(service) == 0 {
		return principal{}, errNoCredential
	}
	p := principal{Org: a.brand, Name: "service"}
	if len(service) > 0 && !a.isService(service) {
		return principal{}, errBadCredential
	}
	if bearer != "" {
		if p, err = a.holder(r.Context(), bearer); err != nil {
			return principal{}, err
		}
	}
	if p.Org == "" {
		return principal{}, errNoOrg // whose owner would be the zero one, which is nobody's
	}
	return p, nil
}

// bearerOf returns the bearer credential, or "" without one.
func bearerOf(r *http.Request) (string, error) {
	values := r.Header.Values("Authorization")
	if len(values) == 0 {
		return "", nil
	}
	scheme, token, ok := strings.Cut(values[0], " ")
	token = strings.TrimSpace(token)
	if len(values) > 1 || !ok || token == "" || !strings.EqualFold(scheme, "Bearer") {
		return "", errBadCredential
	}
	return token, nil
}

// isService compares in constant time, whatever the length.
func (a *admission) isService(values []string) bool {
	if a.service == nil || len(values) != 1 {
		return false
	}
	sum := sha256.Sum256([]byte(values[0]))
	return subtle.ConstantTimeCompare(sum[:], a.service[:]) == 1
}

// holder is whom a bearer credential is of.
func (a *admission) holder(ctx context.Context, token string) (principal, error) {
	if !strings.HasPrefix(token, KeyPrefix) {
		if a.oidc == nil {
			return principal{}, errBadCredential
		}
		return a.oidc.verify(ctx, token)
	}
	if a.keys == nil {
		return principal{}, errBadCredential
	}
	key, err := a.keys.Key(ctx, HashKey(token))
	if errors.Is(err, ErrNoKey) {
		return principal{}, errBadCredential
	}
	if err != nil {
		return principal{}, err
	}
	return principal{Org: key.Org, User: key.User, Admin: key.Admin, Name: "key:" + key.ID, Key: HashKey(token)}, nil
}

// stillHolds refuses what was handed out to a key that has been revoked since.
func (a *admission) stillHolds(ctx context.Context, p principal) error {
	if p.Key == ([sha256.Size]byte{}) {
		return nil
	}
	_, err := a.keys.Key(ctx, p.Key)
	if errors.Is(err, ErrNoKey) {
		return errRevoked
	}
	return err
}

// recheck is how often it is looked whether what lasts still may.
const recheck = 2 * time.Second

// lasting returns the context of what goes on for p: it ends once p's key has
// been revoked, with errRevoked as its cause. A store that cannot be asked is
// no reason. The caller ends it.
func (a *admission) lasting(ctx context.Context, p principal) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(ctx)
	watch := time.AfterFunc(recheck, func() { // most is over before
		tick := time.NewTicker(recheck)
		defer tick.Stop()
		for !errors.Is(a.stillHolds(ctx, p), errRevoked) {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
			}
		}
		cancel(errRevoked)
	})
	return ctx, func() {
		watch.Stop()
		cancel(nil)
	}
}
