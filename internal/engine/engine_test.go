package engine_test

import (
	"debug/elf"
	"errors"
	"io/fs"
	"os"
	osexec "os/exec"
	"path/filepath"
	"slices"
	"testing"

	"github.com/matryer/is"

	"github.com/hanzoai/sandbox/internal/engine"
)

func TestIsRunsc(t *testing.T) {
	for _, c := range []struct {
		args []string
		want bool
	}{
		{[]string{engine.Runsc}, true},
		{[]string{engine.Runsc, "--root=/x", "create", "id"}, true},
		{[]string{"runsc-sandbox", "--root=/x", "boot"}, true},
		{[]string{"runsc-gofer", "--root=/x", "gofer"}, true},
		{[]string{"/proc/self/exe", "umount", "--sync-fd=3", "/path"}, false}, // the umounter

		{nil, false},
		{[]string{}, false},
		{[]string{""}, false},
		{[]string{"program"}, false},
		{[]string{"runsc"}, false}, // somebody's own
		{[]string{"/usr/bin/" + engine.Runsc}, false},
		{[]string{engine.Runsc + "2"}, false},
		{[]string{"program", engine.Runsc}, false},
		{[]string{"/proc/self/exe"}, false},
		{[]string{"/proc/self/exe", "umount"}, false},
		{[]string{"/proc/self/exe", "umount", "/path"}, false},
		{[]string{"/proc/self/exe", "umount", "-sync-fd=3"}, false},
		{[]string{"/proc/self/exe", "serve", "--sync-fd=3"}, false},
		{[]string{"/proc/self/exe", "--sync-fd=3", "umount"}, false},
		{[]string{"program", "umount", "--sync-fd=3"}, false},
	} {
		if got := engine.IsRunsc(c.args); got != c.want {
			t.Errorf("%q: %v", c.args, got)
		}
	}
	if engine.IsRunsc(os.Args) {
		t.Errorf("this test is runsc: %q", os.Args)
	}
}

func TestIsUmounter(t *testing.T) {
	for _, c := range []struct {
		args []string
		want bool
	}{
		{[]string{engine.Self, "umount", "--sync-fd=3", "/path"}, true},
		{[]string{engine.Self, "umount", "--sync-fd=3", ""}, true},

		{nil, false},
		{[]string{engine.Self}, false},
		{[]string{engine.Self, "umount", "--sync-fd=3"}, false},
		{[]string{engine.Self, "umount", "--sync-fd=4", "/path"}, false},
		{[]string{engine.Self, "umount", "/path", "--sync-fd=3"}, false},
		{[]string{engine.Self, "umount", "--sync-fd=3", "/path", "more"}, false},
		{[]string{engine.Self, "mount", "--sync-fd=3", "/path"}, false},
		{[]string{"program", "umount", "--sync-fd=3", "/path"}, false},
		{[]string{engine.Runsc, "umount", "--sync-fd=3", "/path"}, false},
	} {
		if got := engine.IsUmounter(c.args); got != c.want {
			t.Errorf("%q: %v", c.args, got)
		}
		if c.want && engine.IsRunsc(c.args) {
			t.Errorf("%q is runsc too", c.args)
		}
	}
}

func TestEmbed(t *testing.T) {
	is := is.New(t)
	is.Equal(engine.Embedded(), engine.ErrNotEmbedded) // unless package runsc is linked in
	defer engine.Embed(engine.ErrNotEmbedded)
	engine.Embed(engine.ErrCgo)
	is.Equal(engine.Embedded(), engine.ErrCgo)
	engine.Embed(nil)
	is.NoErr(engine.Embedded())
}

func TestStaticOfDynamic(t *testing.T) {
	is := is.New(t)
	program, err := osexec.LookPath("true")
	is.NoErr(err)
	is.Equal(engine.Static(program), engine.ErrCgo)
}

func TestStaticOfOthers(t *testing.T) {
	dir := t.TempDir()
	write := func(name, content string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(content), 0o755); err != nil {
			t.Fatal(err)
		}
		return path
	}
	self, err := os.ReadFile(engine.Self)
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{
		write("script", "#!/bin/sh\n"),
		write("empty", ""),
		write("magic", "\x7fELF"),
		write("cut", string(self[:80])),
		dir,
	} {
		is := is.New(t)
		err := engine.Static(path)
		is.True(err != nil)
		is.True(!errors.Is(err, engine.ErrCgo)) // which would be the wrong advice
	}
	is := is.New(t)
	is.True(errors.Is(engine.Static(filepath.Join(dir, "missing")), fs.ErrNotExist))
}

// TestStaticIsAsInELF: the package reads the file by itself.
func TestStaticIsAsInELF(t *testing.T) {
	entries, err := os.ReadDir("/usr/bin")
	if err != nil {
		t.Fatal(err)
	}
	seen := 0
	for _, e := range entries[:min(len(entries), 200)] {
		path := filepath.Join("/usr/bin", e.Name())
		f, err := elf.Open(path)
		if err != nil {
			continue
		}
		dynamic := slices.ContainsFunc(f.Progs, func(p *elf.Prog) bool { return p.Type == elf.PT_INTERP })
		f.Close()
		seen++
		if got := engine.Static(path); errors.Is(got, engine.ErrCgo) != dynamic || got != nil && !dynamic {
			t.Errorf("%s: %v", path, got)
		}
	}
	if seen == 0 {
		t.Error("there is no executable in /usr/bin")
	}
}
