package server

import (
	"os"
	osexec "os/exec"
	"path/filepath"
	"testing"

	"github.com/matryer/is"
)

// TestShell starts the best shell that there is, and zsh without its questions
// to a user who has no settings, whose own are left alone.
func TestShell(t *testing.T) {
	for name, test := range map[string]struct {
		shells   []string
		settings string
		homeless bool
		want     string
	}{
		"zsh":                {[]string{"zsh", "bash", "sh"}, "", false, "zsh -l, with settings:\n"},
		"zsh with settings":  {[]string{"zsh", "bash", "sh"}, "own", false, "zsh -l, with settings: own\n"},
		"bash":               {[]string{"bash", "sh"}, "", false, "bash -l, without settings\n"},
		"sh":                 {[]string{"sh"}, "", false, "sh -l, without settings\n"},
		"zsh without a home": {[]string{"zsh", "bash", "sh"}, "", true, "zsh -l, without settings\n"},
	} {
		t.Run(name, func(t *testing.T) {
			is := is.New(t)
			bin, home := t.TempDir(), t.TempDir()
			for _, shell := range test.shells {
				is.NoErr(os.WriteFile(filepath.Join(bin, shell), []byte("#!/bin/sh\n"+
					"[ -f ~/.zshrc ] && { read -r s < ~/.zshrc; echo "+shell+" $*, with settings: $s; } || echo "+shell+" $*, without settings\n"), 0o700))
			}
			if test.settings != "" {
				is.NoErr(os.WriteFile(filepath.Join(home, ".zshrc"), []byte(test.settings+"\n"), 0o600))
			}
			if test.homeless {
				home = filepath.Join(home, "none")
			}
			cmd := osexec.CommandContext(t.Context(), "/bin/sh", "-c", shell)
			cmd.Env = []string{"PATH=" + bin, "HOME=" + home}
			out, err := cmd.CombinedOutput()
			is.NoErr(err)
			is.Equal(string(out), test.want)
		})
	}
}
