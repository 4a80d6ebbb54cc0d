package recipe

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	osexec "os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// An aptSource is where apt gets packages from on this machine.
type aptSource struct{ uri, suite, component, list string }

// aptSources returns what apt is configured to.
func aptSources(ctx context.Context) ([]aptSource, error) {
	out, err := output(ctx, "apt-get", "indextargets", "--format", "$(REPO_URI)|$(RELEASE)|$(COMPONENT)|$(FILENAME)", "Created-By: Packages")
	if err != nil {
		return nil, err
	}
	var list []aptSource
	lines := bufio.NewScanner(bytes.NewReader(out))
	for lines.Scan() {
		f := strings.Split(lines.Text(), "|")
		if len(f) == 4 {
			list = append(list, aptSource{strings.TrimSuffix(f[0], "/"), f[1], f[2], f[3]})
		}
	}
	return list, nil
}

// mirrors returns the lines of a sources.list for a release of Debian, from
// the mirrors that this machine has for its own, and when they were last
// updated: the time that files which are made get.
func mirrors(list []aptSource, suite string) (lines []string, updated time.Time, err error) {
	codename, err := hostRelease()
	if err != nil {
		return nil, time.Time{}, err
	}
	for _, s := range list {
		rest, ours := strings.CutPrefix(s.suite, codename)
		if !ours || s.component != "main" || !slices.Contains([]string{"", "-updates", "-security"}, rest) {
			continue
		}
		lines = append(lines, fmt.Sprintf("deb %s %s main", s.uri, suite+rest))
		if at, err := releaseDate(s); err == nil && at.After(updated) {
			updated = at
		}
	}
	if len(lines) == 0 {
		return nil, updated, fmt.Errorf("apt has no source of %s: recipes are for Debian", codename)
	}
	if updated.IsZero() {
		return nil, updated, errors.New("apt does not know its packages: run apt-get update")
	}
	slices.Sort(lines)
	return slices.Compact(lines), updated, nil
}

// hostRelease is the code name of this machine's Debian.
func hostRelease() (string, error) {
	b, err := os.ReadFile("/etc/os-release")
	if err != nil {
		return "", err
	}
	id, codename := "", ""
	for line := range strings.Lines(string(b)) {
		key, value, _ := strings.Cut(strings.TrimSpace(line), "=")
		switch key {
		case "ID":
			id = strings.Trim(value, `"`)
		case "VERSION_CODENAME":
			codename = strings.Trim(value, `"`)
		}
	}
	if id != "debian" || codename == "" {
		return "", fmt.Errorf("this is %.40q: recipes are built on Debian, from the mirrors it is configured to", id)
	}
	return codename, nil
}

// releaseDate is when a source was last updated, by what apt has of it.
func releaseDate(s aptSource) (time.Time, error) {
	dir, name := filepath.Split(s.list)
	at := strings.Index(name, "_"+s.component+"_binary")
	if at < 0 {
		return time.Time{}, os.ErrNotExist
	}
	b, err := os.ReadFile(filepath.Join(dir, name[:at]+"_InRelease"))
	if err != nil {
		return time.Time{}, err
	}
	for line := range strings.Lines(string(b)) {
		if date, ok := strings.CutPrefix(line, "Date: "); ok {
			return time.Parse(time.RFC1123, strings.TrimSpace(date))
		}
	}
	return time.Time{}, os.ErrNotExist
}

// aptOptions are how this machine's apt reaches its mirrors, as a file that
// mmdebstrap takes.
func aptOptions(ctx context.Context) ([]byte, error) {
	out, err := output(ctx, "apt-config", "dump", "--no-empty", "--format", "%f \"%v\";%n", "Acquire::http", "Acquire::https", "Acquire::ftp", "Acquire::Retries")
	return append(out, "Apt::Install-Recommends \"false\";\nAcquire::Languages \"none\";\n"...), err
}

// output runs a program and returns what it writes. Its error has what it
// said.
func output(ctx context.Context, name string, args ...string) ([]byte, error) {
	var stderr bytes.Buffer
	cmd := osexec.CommandContext(ctx, name, args...)
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("%s: %w: %s", name, err, lastPart(stderr.String()))
	}
	return out, nil
}

// lastPart is the end of what a program said.
func lastPart(s string) string {
	s = strings.TrimSpace(s)
	if len(s) > 2000 {
		s = "…" + s[len(s)-2000:]
	}
	return s
}
