//go:build linux

package sandbox

import (
	"os"
	"path/filepath"
	"strings"
)

// screenNeeds are the programs that a desktop is nothing without: any of each
// list, and what to call it.
var screenNeeds = []struct {
	what     string
	programs []string
}{
	{"an X server for VNC", []string{"Xtigervnc", "Xvnc"}},
	{"a window manager", []string{"openbox", "fluxbox", "icewm", "xfwm4"}},
	{"a browser", []string{"chromium", "chromium-browser", "google-chrome"}},
}

// checkScreen says what a class with a screen needs and an image has not. It
// is asked of a new lease, so that nobody waits in front of a screen that
// cannot be.
func checkScreen(c Class, name string, image *Image) error {
	if !c.Screen {
		return nil
	}
	var missing []string
	for _, need := range screenNeeds {
		if !image.hasAny(need.programs) {
			missing = append(missing, need.what+" ("+strings.Join(need.programs, ", ")+")")
		}
	}
	if len(missing) == 0 {
		return nil
	}
	return invalid("image %.200s lacks what class %s needs: %s; \"sandbox-image build desktop\" makes image desktop, which has it",
		name, c.Name, strings.Join(missing, "; "))
}

func (i *Image) hasAny(programs []string) bool {
	for _, program := range programs {
		for _, dir := range []string{"/usr/local/bin", "/usr/bin", "/bin"} {
			if i.has(dir + "/" + program) {
				return true
			}
		}
	}
	return false
}

// has reports whether an image has a file, as its name: a link to it counts,
// wherever it leads.
func (i *Image) has(name string) bool {
	at := filepath.Join(i.Root, name)
	for _, b := range i.Binds {
		if rest, ok := strings.CutPrefix(name, b.Target+"/"); ok {
			at = filepath.Join(b.Source, rest)
		}
	}
	_, err := os.Lstat(at)
	return err == nil
}
