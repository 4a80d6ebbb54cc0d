package image

import (
	"bufio"
	"bytes"
	"errors"
	"io/fs"
	"os"
	"strings"

	"github.com/hanzoai/sandbox/sandbox/image/internal/tree"
)

// mountPoints are what a sandbox mounts something on.
var mountPoints = []string{"/proc", "/dev", "/sys", "/run", "/tmp", "/var/tmp", "/home/sandbox", "/mnt/data", "/work"}

// furnish gives an image's tree what every sandbox takes for granted: places
// to mount things on, and names for the user that commands run as.
func furnish(root string) error {
	if err := tree.Places(root, mountPoints...); err != nil {
		return err
	}
	r, err := os.OpenRoot(root)
	if err != nil {
		return err
	}
	defer r.Close()
	return errors.Join(
		addLine(r, "etc/passwd", "sandbox:x:1000:1000::/home/sandbox:/bin/sh"),
		addLine(r, "etc/group", "sandbox:x:1000:"),
	)
}

// maxAccounts is how long a file of accounts may be to be added to.
const maxAccounts = 1 << 20

// addLine adds a line to a file of accounts that has none for the number 1000.
// The file is replaced, since it is the layers' as well. Where an image has no
// such file, or none that one would expect, it stays so.
func addLine(r *os.Root, name, line string) error {
	info, err := r.Lstat(name)
	if errors.Is(err, fs.ErrNotExist) || err == nil && (!info.Mode().IsRegular() || info.Size() > maxAccounts) {
		return nil
	}
	if err != nil {
		return nil //nolint:nilerr // /etc is a link, or no folder: the image will do without
	}
	text, err := r.ReadFile(name)
	if err != nil || hasNumber(text, "1000") {
		return err
	}
	if len(text) > 0 && !bytes.HasSuffix(text, []byte("\n")) {
		text = append(text, '\n')
	}
	text = append(text, line+"\n"...)
	if err := r.Remove(name); err != nil {
		return err
	}
	if err := r.WriteFile(name, text, 0o644); err != nil {
		return err
	}
	return r.Chmod(name, info.Mode().Perm())
}

// hasNumber reports whether accounts have a number, their third field.
func hasNumber(text []byte, number string) bool {
	lines := bufio.NewScanner(bytes.NewReader(text))
	for lines.Scan() {
		if fields := strings.Split(lines.Text(), ":"); len(fields) > 2 && fields[2] == number {
			return true
		}
	}
	return false
}
