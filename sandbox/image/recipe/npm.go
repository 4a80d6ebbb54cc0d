package recipe

import (
	"archive/tar"
	"compress/gzip"
	"context"
	"crypto/sha512"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"runtime"
	"strings"
)

// fetch puts what is wanted of an npm package into a folder. The package is
// fetched by the npm program, from where that is configured to, and checked
// here. Nothing of it is run.
func (n *NPM) fetch(ctx context.Context, tmp, to string) error {
	want := n.Integrity[runtime.GOARCH]
	if all, ok := n.Integrity[""]; ok {
		want = all
	}
	if want == "" {
		return fmt.Errorf("npm package %s: none for %s", n.Name, runtime.GOARCH)
	}
	arch := strings.Replace(runtime.GOARCH, "amd64", "x64", 1)
	spec := strings.ReplaceAll(n.Name, "{arch}", arch) + "@" + n.Version
	dir, err := os.MkdirTemp(tmp, "npm-")
	if err != nil {
		return err
	}
	if _, err := output(ctx, "npm", "pack", "--ignore-scripts", "--silent", "--pack-destination", dir, spec); err != nil {
		return err
	}
	packed, err := filepath.Glob(filepath.Join(dir, "*.tgz"))
	if err != nil || len(packed) != 1 {
		return errors.Join(err, fmt.Errorf("npm pack %s: no package", spec))
	}
	if err := checkIntegrity(packed[0], want); err != nil {
		return fmt.Errorf("npm package %s: %w", spec, err)
	}
	if err := n.extract(packed[0], to); err != nil {
		return fmt.Errorf("npm package %s: %w", spec, err)
	}
	return n.link(to)
}

func checkIntegrity(name, want string) error {
	f, err := os.Open(name)
	if err != nil {
		return err
	}
	defer f.Close()
	h := sha512.New()
	if _, err := io.Copy(h, f); err != nil {
		return err
	}
	if got := "sha512-" + base64.StdEncoding.EncodeToString(h.Sum(nil)); got != want {
		return fmt.Errorf("it is %s, not %s", got, want)
	}
	return nil
}

// extract takes the wanted files out of a package.
func (n *NPM) extract(packed, to string) error {
	f, err := os.Open(packed)
	if err != nil {
		return err
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		return err
	}
	root, err := os.OpenRoot(to)
	if err != nil {
		return err
	}
	defer root.Close()
	found := false
	for t := tar.NewReader(z); ; {
		h, err := t.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return err
		}
		name, ok := strings.CutPrefix(path.Clean(h.Name), "package/")
		if !ok || h.Typeflag != tar.TypeReg || n.File != "" && name != n.File {
			continue
		}
		found = true
		at := n.To
		if n.File == "" {
			at = path.Join(n.To, name)
		}
		if err := writeTo(root, at, t, os.FileMode(h.Mode)&0o111|0o644); err != nil {
			return err
		}
	}
	if !found {
		return fmt.Errorf("it has no %s", n.File)
	}
	return nil
}

func writeTo(root *os.Root, name string, r io.Reader, perm os.FileMode) error {
	if err := root.MkdirAll(path.Dir(name), 0o755); err != nil {
		return err
	}
	f, err := root.OpenFile(name, os.O_CREATE|os.O_EXCL|os.O_WRONLY, perm)
	if err != nil {
		return err
	}
	_, err = io.Copy(f, r)
	return errors.Join(err, f.Close())
}

// link puts the package's programs on the path.
func (n *NPM) link(to string) error {
	root, err := os.OpenRoot(to)
	if err != nil {
		return err
	}
	defer root.Close()
	if err := root.MkdirAll("usr/local/bin", 0o755); err != nil {
		return err
	}
	for name, target := range n.Links {
		if err := root.Chmod(path.Join(n.To, target), 0o755); err != nil {
			return err
		}
		if err := root.Symlink("/"+path.Join(n.To, target), "usr/local/bin/"+name); err != nil {
			return err
		}
	}
	if n.File != "" {
		return root.Chmod(n.To, 0o755)
	}
	return nil
}
