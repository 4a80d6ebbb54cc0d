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
	key, err := readKey(base)
	if err != nil {
		return err
	}
	if key == "" || strings.ContainsAny(key, " \t\r\n") {
		return usage("that is no key")
	}
	if !c.NoCheck {
		a.given = key
		if err := a.tryKey(); err != nil {
			return err
		}
	}
	stored, err := readKeys()
	if err != nil {
		return err
	}
	stored[base] = key
	if err := writeKeys(stored); err != nil {
		return err
	}
	fmt.Fprintln(os.Stderr, "stored the key for", base)
	return nil
}

func readKey(base string) (string, error) {
	if isTerminal(os.Stdin) {
		fmt.Fprintf(os.Stderr, "key for %s: ", base)
		b, err := term.ReadPassword(int(os.Stdin.Fd()))
		fmt.Fprintln(os.Stderr)
		return strings.TrimSpace(string(b)), err
	}
	line, err := bufio.NewReader(io.LimitReader(os.Stdin, 64<<10)).ReadString('\n')
	if errors.Is(err, io.EOF) {
		err = nil
	}
	return strings.TrimSpace(line), err
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
	stored, err := readKeys()
	if err != nil {
		return err
	}
	delete(stored, base)
	return writeKeys(stored)
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
		return key, nil
	}
	base, err := a.base()
	if err != nil {
		return "", err
	}
	stored, err := readKeys()
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
	if err == nil {
		err = json.Unmarshal(b, &stored)
	}
	if err != nil {
		return stored, fmt.Errorf("%s: %w", name, err)
	}
	return stored, nil
}

// writeKeys replaces the file, which is its user's alone.
func writeKeys(stored map[string]string) error {
	name, err := keysFile()
	if err != nil {
		return err
	}
	b, err := json.MarshalIndent(stored, "", "  ")
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(name), 0o700); err != nil {
		return err
	}
	f, err := os.CreateTemp(filepath.Dir(name), ".keys-*") // with mode 0600
	if err != nil {
		return err
	}
	_, err = f.Write(append(b, '\n'))
	if err = errors.Join(err, f.Close()); err == nil {
		err = os.Rename(f.Name(), name)
	}
	if err != nil {
		return errors.Join(err, os.Remove(f.Name()))
	}
	return nil
}
