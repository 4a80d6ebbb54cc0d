package server_test

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"encoding/json"
	"maps"
	"math"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/matryer/is"

	"github.com/hanzoai/sandbox/server"
)

// An issuer signs tokens.
type issuer struct {
	*httptest.Server
	keys map[jose.SignatureAlgorithm]crypto.Signer
}

func newIssuer(t *testing.T) *issuer {
	rsaKey, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	ecKey, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	_, edKey, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	i := &issuer{keys: map[jose.SignatureAlgorithm]crypto.Signer{jose.RS256: rsaKey, jose.ES256: ecKey, jose.EdDSA: edKey, jose.PS256: rsaKey}}
	i.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/.well-known/openid-configuration" {
			json.NewEncoder(w).Encode(map[string]any{"issuer": i.URL, "jwks_uri": i.URL + "/keys", "authorization_endpoint": i.URL, "token_endpoint": i.URL, "id_token_signing_alg_values_supported": []string{"RS256", "ES256", "EdDSA", "PS256"}})
			return
		}
		var set jose.JSONWebKeySet
		for alg, key := range i.keys {
			set.Keys = append(set.Keys, jose.JSONWebKey{Key: key.Public(), KeyID: string(alg), Algorithm: string(alg), Use: "sig"})
		}
		json.NewEncoder(w).Encode(set)
	}))
	t.Cleanup(i.Close)
	return i
}

// token signs claims over good ones.
func (i *issuer) token(t *testing.T, alg jose.SignatureAlgorithm, key any, claims map[string]any) string {
	t.Helper()
	all := map[string]any{
		"iss": i.URL, "aud": "sandboxes", "sub": "ada", "owner": "acme",
		"exp": time.Now().Add(time.Hour).Unix(), "iat": time.Now().Unix(),
	}
	maps.Copy(all, claims)
	if key == nil {
		key = i.keys[alg]
	}
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: alg, Key: jose.JSONWebKey{Key: key, KeyID: string(alg)}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	payload, err := json.Marshal(all)
	if err != nil {
		t.Fatal(err)
	}
	signed, err := signer.Sign(payload)
	if err != nil {
		t.Fatal(err)
	}
	text, err := signed.CompactSerialize()
	if err != nil {
		t.Fatal(err)
	}
	return text
}

func TestTokens(t *testing.T) {
	i := newIssuer(t)
	s := start(t, server.Config{Sandboxes: newMemory(t).For, OIDC: server.OIDC{Issuer: i.URL, Audience: "sandboxes", AdminClaim: "isAdmin"}})
	_, foreign, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		token string
		want  int
	}{
		"RS256":            {i.token(t, jose.RS256, nil, nil), 200},
		"ES256":            {i.token(t, jose.ES256, nil, nil), 200},
		"EdDSA":            {i.token(t, jose.EdDSA, nil, nil), 200},
		"admin":            {i.token(t, jose.EdDSA, nil, map[string]any{"isAdmin": true}), 200},
		"PS256":            {i.token(t, jose.PS256, nil, nil), 401},
		"HS256":            {i.token(t, jose.HS256, []byte("01234567890123456789012345678901"), nil), 401},
		"another's key":    {i.token(t, jose.EdDSA, foreign, nil), 401},
		"other audience":   {i.token(t, jose.EdDSA, nil, map[string]any{"aud": "others"}), 401},
		"other issuer":     {i.token(t, jose.EdDSA, nil, map[string]any{"iss": "https://other.example"}), 401},
		"expired":          {i.token(t, jose.EdDSA, nil, map[string]any{"exp": time.Now().Add(-time.Hour).Unix()}), 401},
		"not yet":          {i.token(t, jose.EdDSA, nil, map[string]any{"nbf": time.Now().Add(time.Hour).Unix()}), 401},
		"no subject":       {i.token(t, jose.EdDSA, nil, map[string]any{"sub": ""}), 401},
		"no organisation":  {i.token(t, jose.EdDSA, nil, map[string]any{"owner": nil}), 403},
		"odd organisation": {i.token(t, jose.EdDSA, nil, map[string]any{"owner": []string{"acme"}}), 403},
		"no token":         {"a.b.c", 401},
	} {
		t.Run(name, func(t *testing.T) {
			is := is.New(t)
			req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.URL+"/v1/sandbox", nil)
			is.NoErr(err)
			req.Header.Set("Authorization", "Bearer "+c.token)
			resp, err := http.DefaultClient.Do(req)
			is.NoErr(err)
			resp.Body.Close()
			is.Equal(resp.StatusCode, c.want)
		})
	}
}

// TestIssuerDown has a server start without its issuer, and let nobody in.
func TestIssuerDown(t *testing.T) {
	is := is.New(t)
	i := newIssuer(t)
	token := i.token(t, jose.EdDSA, nil, nil)
	i.Close()
	s := start(t, server.Config{Sandboxes: newMemory(t).For, OIDC: server.OIDC{Issuer: i.URL, Audience: "sandboxes"}})
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.URL+"/v1/sandbox", nil)
	is.NoErr(err)
	req.Header.Set("Authorization", "Bearer "+token)
	resp, err := http.DefaultClient.Do(req)
	is.NoErr(err)
	resp.Body.Close()
	is.True(resp.StatusCode == http.StatusUnauthorized || resp.StatusCode == http.StatusServiceUnavailable)
}

func TestConfigRefused(t *testing.T) {
	m := newMemory(t)
	for name, cfg := range map[string]server.Config{
		"no sandboxes":              {},
		"an issuer for everybody":   {Sandboxes: m.For, OIDC: server.OIDC{Issuer: "https://x.example"}},
		"a negative limit":          {Sandboxes: m.For, Limits: server.Limits{Runs: -1}},
		"a rate that is none":       {Sandboxes: m.For, Limits: server.Limits{Rate: math.NaN()}},
		"a negative fee":            {Sandboxes: m.For, Fees: server.Fees{Run: -1}},
		"a negative fee of a class": {Sandboxes: m.For, Fees: server.Fees{Hour: map[string]int64{"dev": -1}}},
	} {
		if _, err := server.New(cfg); err == nil {
			t.Errorf("%s was taken", name)
		}
	}
}
