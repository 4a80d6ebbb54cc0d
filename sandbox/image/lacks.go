package image

import (
	"os"
	"path/filepath"
	"strings"

	"github.com/hanzoai/sandbox/sandbox"
)

// needs are the programs that a class of sandboxes is nothing without: any of
// each list, and what to call it.
var needs = map[string][]struct {
	what     string
	programs []string
}{
	"desktop": {
		{"an X server for VNC", []string{"Xtigervnc", "Xvnc"}},
		{"a window manager", []string{"openbox", "fluxbox", "icewm", "xfwm4"}},
		{"a browser", []string{"chromium", "chromium-browser", "google-chrome"}},
	},
}

// lacks says what the class of a lease needs and its image has not.
func lacks(image *sandbox.Image, want sandbox.ImageRequest) error {
	var missing []string
	for _, need := range needs[want.Class] {
		if !hasAny(image, need.programs) {
			missing = append(missing, need.what+" ("+strings.Join(need.programs, ", ")+")")
		}
	}
	if len(missing) == 0 {
		return nil
	}
	return invalid("image %.200s lacks what class %s needs: %s; \"sandbox-image build %s\" makes one that has it",
		want.Name, want.Class, strings.Join(missing, "; "), want.Class)
}

func hasAny(image *sandbox.Image, programs []string) bool {
	for _, program := range programs {
		for _, dir := range []string{"/usr/local/bin", "/usr/bin", "/bin"} {
			if has(image, dir+"/"+program) {
				return true
			}
		}
	}
	return false
}

// has reports whether an image has a file, as its name: a link to it counts,
// wherever it leads.
func has(image *sandbox.Image, name string) bool {
	at := filepath.Join(image.Root, name)
	for _, b := range image.Binds {
		if rest, ok := strings.CutPrefix(name, b.Target+"/"); ok {
			at = filepath.Join(b.Source, rest)
		}
	}
	_, err := os.Lstat(at)
	return err == nil
}
