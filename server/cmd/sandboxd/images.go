package main

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/hanzoai/sandbox/sandbox"
	"github.com/hanzoai/sandbox/sandbox/image"
	"github.com/hanzoai/sandbox/sandbox/image/command"
)

// imagesDir is where a server's images are.
func imagesDir(root string) string { return filepath.Join(root, "images") }

// An exitError is the end of a command that has said itself what was wrong.
type exitError int

func (c exitError) Error() string { return fmt.Sprintf("exit code %d", int(c)) }

// images is the command of the image store, on the server's own. It works
// beside a server.
func images(ctx context.Context, env *environment, args []string) error {
	flags := newFlags("sandboxd images", env)
	root := flags.String("root", defaultRoot, "the server's `folder`")
	dir := flags.String("dir", "", "the store's `folder`; images below the root without it")
	if err := parse(flags, env, args); err != nil {
		return err
	}
	if *dir == "" {
		*dir = imagesDir(*root)
	}
	c := &command.Command{Name: "sandboxd images", Dir: *dir, Stdout: env.stdout, Stderr: env.stderr}
	if code := c.Run(ctx, flags.Args()); code != 0 {
		return exitError(code)
	}
	return nil
}

// An imagePolicy says which images leases may name, and get if they name none.
type imagePolicy struct {
	byClass    string // class=image,…
	registries string // that anybody's images may come from
	platform   string // on which each organisation has its own
	shared     string // organisations there whose images are everybody's
	folders    string
}

func (s *settings) imageConfig() image.Config {
	cfg := image.Config{Dir: imagesDir(s.root), Folders: list(s.images.folders)}
	for _, host := range list(s.images.platform) { // before "*", which they are no part of
		cfg.Registries = append(cfg.Registries, image.Registry{Host: host, Login: true, Orgs: true, Shared: list(s.images.shared)})
	}
	for _, host := range list(s.images.registries) {
		cfg.Registries = append(cfg.Registries, image.Registry{Host: host})
	}
	return cfg
}

// classes are the built-in ones with the images that they are to have.
func (s *settings) classes() []sandbox.Class {
	classes := sandbox.Classes()
	for _, entry := range list(s.images.byClass) {
		of, name, named := strings.Cut(entry, "=")
		for i := range classes {
			if !named {
				classes[i].Image = entry
			} else if classes[i].Name == of {
				classes[i].Image = name
			}
		}
	}
	return classes
}

// check refuses a class that there is not, whose image nobody would get.
func (p *imagePolicy) check() error {
	known := map[string]bool{}
	for _, c := range sandbox.Classes() {
		known[c.Name] = true
	}
	for _, entry := range list(p.byClass) {
		if of, name, named := strings.Cut(entry, "="); named && (!known[of] || name == "") {
			return fmt.Errorf("%w: --images %q: want class=image, of a class that there is", errUsage, entry)
		}
	}
	return nil
}

// list splits what is separated by commas.
func list(s string) []string {
	return strings.FieldsFunc(s, func(r rune) bool { return r == ',' || r == ' ' })
}
