package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"golang.org/x/term"
)

type authCmd struct {
	Login  loginCmd  `cmd:"" help:"Store a key, which is read from the terminal or from standard input."`
	Logout logoutCmd `cmd:"" help:"Forget the stored key of the server."`
	Status statusCmd `cmd:"" help:"Say which key is used, and whether the server takes it."`
}

type loginCmd struct {
	NoCheck bool `help:"Store it without asking the server."`
}

// Help is what --help adds.
func (c *loginCmd) Help() string {
	return `Examples:
  hanzo auth login
  hanzo --base-url https://sandboxes.example.com auth login < key.txt`
}

// Run stores a key. It is no argument, as other users of the machine see
// those.
func (c *loginCmd) Run(a *app) error {
	base, err := a.base()
	if err != nil {
		return err
	}
	key, err := a.readKey(base)
	if err != nil {
		return err
	}
	if key == "" || !isKey(key) {
		return usage("that is no key")
	}
	if !c.NoCheck {
		a.given = key
		if err := a.tryKey(); err != nil {
			return err
		}
	}
	if err := changeKeys(func(stored map[string]string) { stored[base] = key }); err != nil {
		return err
	}
	fmt.Fprintln(os.Stderr, "stored the key for", base)
	return nil
}

func (a *app) readKey(base string) (string, error) {
	if isTerminal(os.Stdin) {
		fmt.Fprintf(os.Stderr, "key for %s: ", base)
		b, err := a.readPassword()
		fmt.Fprintln(os.Stderr)
		return strings.TrimSpace(string(b)), err
	}
	line, err := bufio.NewReader(io.LimitReader(input{a.ctx}, 64<<10)).ReadString('\n')
	if errors.Is(err, io.EOF) {
		err = nil
	}
	return strings.TrimSpace(line), err
}

// readPassword leaves the terminal as it was, also when it is interrupted.
func (a *app) readPassword() ([]byte, error) {
	fd := int(os.Stdin.Fd())
	before, err := term.GetState(fd)
	if err != nil {
		return nil, err
	}
	defer term.Restore(fd, before) //nolint:errcheck // there is nothing else to try
	return interruptible(a.ctx, func() ([]byte, error) { return term.ReadPassword(fd) })
}

// isKey reports whether a header can have it.
func isKey(key string) bool {
	return !strings.ContainsFunc(key, func(r rune) bool { return r <= ' ' || r > '~' })
}

// tryKey asks for something that takes a key.
func (a *app) tryKey() error {
	resp, err := a.do(call{method: http.MethodGet, path: []string{"v1", "sandbox"}, query: values("status", "none")})
	if err != nil {
		return err
	}
	return resp.Body.Close()
}

type logoutCmd struct{}

// Run forgets a key.
func (c *logoutCmd) Run(a *app) error {
	base, err := a.base()
	if err != nil {
		return err
	}
	return changeKeys(func(stored map[string]string) { delete(stored, base) })
}

type statusCmd struct{}

// Run says where the key is from.
func (c *statusCmd) Run(a *app) error {
	key, err := a.key()
	if err != nil {
		return err
	}
	from := "no key"
	if key != "" {
		from = "the stored key"
	}
	if os.Getenv("HANZO_API_KEY") != "" {
		from = "the key in HANZO_API_KEY"
	}
	fmt.Printf("%s: %s\n", a.BaseURL, from)
	return a.tryKey()
}

// key is the one for the server. One that was stored for another server is
// never sent to it.
func (a *app) key() (string, error) {
	if a.given != "" {
		return a.given, nil
	}
	if key := strings.TrimSpace(os.Getenv("HANZO_API_KEY")); key != "" {
		if !isKey(key) {
			return "", usage("HANZO_API_KEY: that is no key")
		}
		return key, nil
	}
	base, err := a.base()
	if err != nil {
		return "", err
	}
	stored, err := readKeys()
	if err == nil && !isKey(stored[base]) {
		err = fmt.Errorf("what is stored for %s is no key; store a good one with hanzo auth login", base)
	}
	return stored[base], err
}

func keysFile() (string, error) {
	dir, err := os.UserConfigDir()
	return filepath.Join(dir, "hanzo", "keys.json"), err
}

// readKeys returns the stored keys by server. A home that there is not has
// none.
func readKeys() (map[string]string, error) {
	stored := map[string]string{}
	name, err := keysFile()
	if err != nil {
		return stored, nil
	}
	b, err := os.ReadFile(name)
	if errors.Is(err, fs.ErrNotExist) {
		return stored, nil
	}
	if err != nil {
		return stored, err
	}
	if err := json.Unmarshal(b, &stored); err != nil || stored == nil {
		return nil, fmt.Errorf("%s is damaged; remove it, and store the keys again with hanzo auth login", name)
	}
	if info, err := os.Stat(name); err == nil && info.Mode().Perm()&0o077 != 0 {
		fmt.Fprintf(os.Stderr, "hanzo: the keys in %s can be read by other users: chmod 600 it\n", name)
	}
	return stored, nil
}

// changeKeys changes what is stored, one program after the other. The file is
// its user's alone; a link to it stays one.
func changeKeys(change func(stored map[string]string)) error {
	name, err := keysFile()
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(name), 0o700); err != nil {
		return err
	}
	dir, err := os.Open(filepath.Dir(name))
	if err != nil {
		return err
	}
	defer dir.Close()
	if err := syscall.Flock(int(dir.Fd()), syscall.LOCK_EX); err != nil {
		return fmt.Errorf("locking %s: %w", dir.Name(), err)
	}
	stored, err := readKeys()
	if err != nil {
		return err
	}
	change(stored)
	b, err := json.MarshalIndent(stored, "", "  ")
	if err != nil {
		return err
	}
	return writeFile(name, 0o600, func(w io.Writer) error {
		_, err := w.Write(append(b, '\n'))
		return err
	})
}
