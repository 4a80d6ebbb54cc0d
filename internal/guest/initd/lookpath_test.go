package initd

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/matryer/is"
)

// tree makes files in a new folder: a mode, or a directory for 0, or a link
// for a name that ends in what it points to after "->".
func tree(t *testing.T, modes map[string]os.FileMode) string {
	t.Helper()
	dir := t.TempDir()
	for name, mode := range modes {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		var err error
		if mode.IsDir() {
			err = os.MkdirAll(path, mode.Perm())
		} else {
			err = os.WriteFile(path, []byte("#!"), mode)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func TestFind(t *testing.T) {
	dir := tree(t, map[string]os.FileMode{
		"one/prog": 0o755, "one/both": 0o755, "one/plain": 0o644, "one/dir": os.ModeDir | 0o755,
		"two/both": 0o755, "two/plain": 0o755, "two/dir": 0o755, "two/onlyhere": 0o755, "two/refused": 0o600,
		"work/here": 0o755, "work/sub/deep": 0o755, "work/bin/rel": 0o755,
	})
	at := func(name string) string { return filepath.Join(dir, name) }
	path := "PATH=" + at("one") + ":" + at("missing") + ":" + at("two")
	work := at("work")
	for name, c := range map[string]struct {
		prog string
		env  []string
		want string
		err  error
	}{
		"in the first":             {"prog", []string{path}, at("one/prog"), nil},
		"the first of two":         {"both", []string{path}, at("one/both"), nil},
		"in the last":              {"onlyhere", []string{path}, at("two/onlyhere"), nil},
		"past what is not to run":  {"plain", []string{path}, at("two/plain"), nil},
		"past a directory":         {"dir", []string{path}, at("two/dir"), nil},
		"nowhere":                  {"nothing", []string{path}, "", syscall.ENOENT},
		"not to run anywhere":      {"refused", []string{path}, "", syscall.EACCES},
		"not in the workdir":       {"here", []string{path}, "", syscall.ENOENT},
		"by an empty element":      {"here", []string{"PATH=" + at("one") + "::" + at("two")}, work + "/here", nil},
		"by an empty last element": {"here", []string{"PATH=" + at("one") + ":"}, work + "/here", nil},
		"by a relative element":    {"rel", []string{"PATH=bin"}, work + "/bin/rel", nil},
		"the last PATH counts":     {"both", []string{path, "PATH=" + at("two")}, at("two/both"), nil},
		"not another variable":     {"prog", []string{"XPATH=" + at("one"), "PATHX=" + at("one"), "PATH=/nowhere"}, "", syscall.ENOENT},
		"a path":                   {at("one/prog"), nil, at("one/prog"), nil},
		"a relative path":          {"./here", []string{path}, "./here", nil},
		"a path below":             {"sub/deep", nil, "sub/deep", nil},
		"a path up":                {"../one/prog", nil, "../one/prog", nil},
		"a path to nothing":        {"./nothing", []string{path}, "./nothing", syscall.ENOENT},
		"a path to a directory":    {"./sub", nil, "./sub", syscall.EACCES},
		"a path not to run":        {at("one/plain"), nil, at("one/plain"), syscall.EACCES},
		"a path through a file":    {at("one/prog/x"), nil, at("one/prog/x"), syscall.ENOTDIR},
		"a NUL":                    {"pr\x00og", []string{path}, "", syscall.ENOENT},
	} {
		t.Run(name, func(t *testing.T) {
			is := is.New(t)
			got, err := find(c.prog, work, c.env)
			is.Equal(err, c.err)
			is.Equal(got, c.want)
		})
	}
}

func TestFindAsExecvp(t *testing.T) {
	is := is.New(t)
	work := tree(t, map[string]os.FileMode{"sh": 0o755})
	got, err := find("sh", work, nil)
	is.NoErr(err)
	is.Equal(got, "/bin/sh")
	_, err = find("", work, []string{"PATH=/bin"})
	is.Equal(err, syscall.ENOENT)
}

func TestSearchable(t *testing.T) {
	is := is.New(t)
	dir := tree(t, map[string]os.FileMode{"file": 0o755})
	is.NoErr(searchable(dir))
	is.Equal(searchable(dir+"/file"), syscall.ENOTDIR)
	is.Equal(searchable(dir+"/file/x"), syscall.ENOTDIR)
	is.Equal(searchable(dir+"/missing"), syscall.ENOENT)
	is.Equal(searchable(""), syscall.ENOENT)
}

func TestLookup(t *testing.T) {
	for _, c := range []struct {
		env  []string
		want string
	}{
		{nil, ""},
		{[]string{"A=b"}, ""},
		{[]string{"KEY=value"}, "value"},
		{[]string{"KEY=one", "KEY=two", "OTHER=x"}, "two"},
		{[]string{"KEY=a=b=c"}, "a=b=c"},
		{[]string{"KEY=value", "KEY="}, ""},
		{[]string{"KEY", "KEYS=x", "XKEY=y", "key=z", "=KEY=w"}, ""},
	} {
		if got := lookup(c.env, "KEY"); got != c.want {
			t.Errorf("%q has KEY=%q, want %q", c.env, got, c.want)
		}
	}
}
