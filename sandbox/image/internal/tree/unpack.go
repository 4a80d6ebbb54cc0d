package tree

import (
	"archive/tar"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"
	"time"
)

// A Layer is what of a layer is not in its tree.
type Layer struct {
	Bytes   int64 // of its files
	Entries int64

	// Names are bytes, because no encoding is promised of them.
	Whiteouts [][]byte    // names that it removes from the layers below
	Opaque    [][]byte    // folders of which it hides all that is below
	Implicit  [][]byte    // folders that it does not have but has files in
	Links     [][2][]byte // hard links, from a name to one that a layer below has
	Dropped   int         // device nodes in /dev, named pipes and sockets, which a sandbox has no use for
}

// Unpack writes the layer that an uncompressed tar archive holds into dir, an
// empty folder, and reads the archive to its end.
//
// Ownership, modes and times are kept; set-user-id and set-group-id bits and
// extended attributes are dropped. A device node outside /dev is an error, as
// is a name that leads out of the image.
func Unpack(dir string, r io.Reader, budget *Budget) (*Layer, error) {
	f, err := openFolder(dir)
	if err != nil {
		return nil, err
	}
	defer f.close()
	u := &unpacker{folder: f, budget: budget, layer: &Layer{}, folders: map[string]*meta{}, buf: make([]byte, copySize)}
	f.made = func(where string) error { return u.addFolder(where, nil) }
	counted := &counter{r: r, budget: budget}
	if err := u.all(tar.NewReader(counted)); err != nil {
		return nil, err
	}
	// What follows the archive's end counts for its digest.
	if _, err := io.CopyBuffer(io.Discard, struct{ io.Reader }{counted}, u.buf); err != nil {
		return nil, err
	}
	return u.layer, u.finish()
}

// counter takes what is read from the budget.
type counter struct {
	r      io.Reader
	budget *Budget
}

func (c *counter) Read(p []byte) (int, error) {
	n, err := c.r.Read(p)
	if over := c.budget.Bytes(int64(n)); over != nil {
		return n, over
	}
	return n, err
}

type unpacker struct {
	*folder
	budget  *Budget
	layer   *Layer
	folders map[string]*meta // by where they are; nil for one that only has entries in it
	buf     []byte
}

func (u *unpacker) all(t *tar.Reader) error {
	for {
		h, err := t.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("layer: %w", err)
		}
		if err := u.budget.Entries(1); err != nil {
			return err
		}
		if err := u.entry(h, t); err != nil {
			return fmt.Errorf("layer: %s: %w", shown(h.Name), err)
		}
		u.layer.Entries++
	}
}

// shown is a hostile name as an error may show it.
func shown(name string) string {
	if len(name) > 200 {
		name = name[:200] + "…"
	}
	return fmt.Sprintf("%q", name)
}

func (u *unpacker) entry(h *tar.Header, r io.Reader) error {
	name, err := clean(h.Name)
	if err != nil {
		return err
	}
	base := path.Base(name)
	if name == "." {
		return u.top(h)
	}
	if strings.HasPrefix(base, whiteoutPrefix) {
		return u.whiteout(name, base)
	}
	if dropped, err := unusable(name, h.Typeflag); dropped || err != nil {
		u.layer.Dropped++
		return err
	}
	where, err := u.parent(name, true)
	if err != nil {
		return err
	}
	switch h.Typeflag {
	case tar.TypeReg, tar.TypeRegA, tar.TypeGNUSparse: //nolint:staticcheck // TypeRegA: old archives have it
		return u.file(where, base, h, r)
	case tar.TypeDir:
		return u.dir(where, base, h)
	case tar.TypeSymlink:
		return u.symlink(where, base, h)
	case tar.TypeLink:
		return u.link(where, base, name, h)
	case tar.TypeXGlobalHeader:
		return nil
	}
	return fmt.Errorf("an entry of type %q", h.Typeflag)
}

// unusable reports whether an entry is something that a sandbox has no use
// for, or may not have.
func unusable(name string, kind byte) (bool, error) {
	switch kind {
	case tar.TypeFifo:
		return true, nil
	case tar.TypeChar, tar.TypeBlock:
		if strings.HasPrefix(name, "dev/") { // something else is mounted there
			return true, nil
		}
		return false, errors.New("a device node")
	}
	return false, nil
}

// top takes the entry of the tree's top itself.
func (u *unpacker) top(h *tar.Header) error {
	if h.Typeflag != tar.TypeDir {
		return errors.New("the top is no folder")
	}
	return u.addFolder(".", metaOf(h))
}

// A meta is what a folder gets when it is full.
type meta struct {
	mode     fs.FileMode
	uid, gid int
	time     time.Time
}

func metaOf(h *tar.Header) *meta { return &meta{mode(h), h.Uid, h.Gid, h.ModTime} }

// addFolder notes a folder, which takes memory.
func (u *unpacker) addFolder(where string, m *meta) error {
	if _, ok := u.folders[where]; !ok {
		if err := u.budget.Names(where); err != nil {
			return err
		}
	}
	u.folders[where] = m
	return nil
}

func (u *unpacker) dir(where, base string, h *tar.Header) error {
	in, err := u.at(where)
	if err != nil {
		return err
	}
	info, err := in.Lstat(base)
	if err != nil || !info.IsDir() {
		if err = u.put(where, base, func(in *os.Root) error { return in.Mkdir(base, 0o700) }); err != nil {
			return err
		}
	}
	return u.addFolder(path.Join(where, base), metaOf(h))
}

// finish gives folders what would have been lost, or in the way, while they
// were being filled.
func (u *unpacker) finish() error {
	u.forget()
	wheres := make([]string, 0, len(u.folders))
	for where := range u.folders {
		wheres = append(wheres, where)
	}
	slices.Sort(wheres)
	for _, where := range slices.Backward(wheres) {
		info, err := u.root.Lstat(where)
		if err != nil || !info.IsDir() {
			continue // a later entry has replaced it
		}
		m := u.folders[where]
		if m == nil {
			u.layer.Implicit = append(u.layer.Implicit, []byte(where))
			continue
		}
		if err := u.dirMeta(where, m); err != nil {
			return err
		}
	}
	if u.folders["."] == nil {
		u.layer.Implicit = append(u.layer.Implicit, []byte("."))
	}
	return nil
}

func (u *unpacker) dirMeta(where string, m *meta) error {
	return errors.Join(
		u.root.Lchown(where, m.uid, m.gid),
		u.root.Chmod(where, m.mode),
		u.root.Chtimes(where, time.Time{}, m.time),
	)
}
