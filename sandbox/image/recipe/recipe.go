package recipe

import (
	"crypto/sha256"
	_ "embed"
	"encoding/hex"
	"encoding/json"
	"slices"
	"strings"
)

// A Recipe says what an image is made of.
type Recipe struct {
	Name    string
	Summary string
	Suite   string   // of Debian
	Include []string // Debian packages, beside the essential ones
	NPM     []NPM    // programs from npm
	Go      string   // a version of the Go toolchain, with its compiled library; "" is none
	Env     []string
}

// An NPM is a package of npm, all or one file of it.
type NPM struct {
	Name      string            // with {arch} where it differs: x64, arm64
	Version   string            //
	Integrity map[string]string // by architecture, or by "" for all
	File      string            // the one file that is wanted, as bin/node
	To        string            // where that, or the package, is put
	Links     map[string]string // names in /usr/local/bin, and what in the package they are
}

//go:embed hook.sh
var hook string

// Digest identifies what the recipe says. Two builds with one digest differ by
// the updates that Debian has made in between.
func (r *Recipe) Digest() string {
	b, err := json.Marshal(struct {
		*Recipe
		Hook    string
		Options []string
		Dpkg    string
	}{r, hook, options, dpkgOptions})
	if err != nil {
		panic(err) // it has nothing that could fail
	}
	sum := sha256.Sum256(b)
	return "sha256:" + hex.EncodeToString(sum[:])
}

// Find returns the recipe of a name.
func Find(name string) (*Recipe, bool) {
	i := slices.IndexFunc(recipes, func(r Recipe) bool { return r.Name == name })
	if i < 0 {
		return nil, false
	}
	return &recipes[i], true
}

// All returns the recipes, by name.
func All() []Recipe {
	all := slices.Clone(recipes)
	slices.SortFunc(all, func(a, b Recipe) int { return strings.Compare(a.Name, b.Name) })
	return all
}
