package command

import (
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/hanzoai/sandbox/sandbox"
	"github.com/hanzoai/sandbox/sandbox/image"
	"github.com/hanzoai/sandbox/sandbox/image/recipe"
)

// paths is a flag that can be given several times.
type paths []string

func (p *paths) String() string { return strings.Join(*p, " ") }

func (p *paths) Set(s string) error {
	*p = append(*p, s)
	return nil
}

func build(c *call) error {
	var out paths
	c.flags.Var(&out, "o", "write the image to `PATH`.tar, or as an OCI layout to the folder PATH; may be repeated")
	force := c.flags.Bool("force", false, "build it again, with Debian's updates, though its recipe is the same")
	c.flags.BoolVar(&c.quiet, "q", false, "say nothing of how far it is, nor what the programs say that build it")
	as := c.flags.String("as", "", "the `name` it gets in the store; the recipe's by default")
	if err := c.parse(0, 1); err != nil {
		return err
	}
	if len(c.args) == 0 {
		return c.recipes()
	}
	r, ok := recipe.Find(c.args[0])
	if !ok {
		return errors.Join(fmt.Errorf("no recipe %q", c.args[0]), c.recipes())
	}
	name := *as
	if name == "" {
		name = r.Name
	}
	if !canKeep() {
		return c.buildAside(r, out)
	}
	s, err := c.store()
	if err != nil {
		return err
	}
	have, err := s.Inspect(name)
	if err != nil && !errors.Is(err, sandbox.ErrNotFound) {
		return err
	}
	if err == nil && have.Recipe == r.Digest() && !*force {
		fmt.Fprintf(c.Stdout, "%s is built: %s, %s in %d files\n", name, have.Digest, size(have.Size), have.Entries)
	} else if err := c.buildInto(s, r, name); err != nil {
		return err
	}
	for _, path := range out {
		if err := c.show("write "+path, s.Export(c.ctx, name, path)); err != nil {
			return err
		}
	}
	return nil
}

// recipes lists what can be built.
func (c *call) recipes() error {
	w := tabwriter.NewWriter(c.Stdout, 0, 8, 2, ' ', 0)
	for _, r := range recipe.All() {
		fmt.Fprintf(w, "%s\t%s\n", r.Name, r.Summary)
	}
	return w.Flush()
}

func (c *call) log() io.Writer {
	if c.quiet {
		return io.Discard
	}
	return c.Stderr
}

// buildInto builds a recipe into the store.
func (c *call) buildInto(s *image.Store, r *recipe.Recipe, name string) (err error) {
	tmp, remove, err := s.Temp()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, remove()) }()
	layout := filepath.Join(tmp, "layout")
	built, err := recipe.Build(c.ctx, r, layout, c.log())
	if err != nil {
		return err
	}
	if err := c.show("unpack "+name, s.Import(c.ctx, layout, name)); err != nil {
		return err
	}
	have, err := s.Inspect(name)
	if err != nil {
		return err
	}
	fmt.Fprintf(c.Stdout, "%s: %s, %s in %d files, %s compressed, built in %v\n",
		name, have.Digest, size(have.Size), have.Entries, size(built.Size), built.Took.Round(time.Second))
	return nil
}

// buildAside builds a recipe for a user who cannot unpack it: into the layouts
// that were asked for.
func (c *call) buildAside(r *recipe.Recipe, out paths) error {
	if len(out) != 1 || strings.HasSuffix(out[0], ".tar") {
		return errors.New("build: without root there is no store: name one folder by -o, for an OCI layout")
	}
	built, err := recipe.Build(c.ctx, r, out[0], c.log())
	if err != nil {
		return err
	}
	fmt.Fprintf(c.Stdout, "%s: %s, %s compressed, built in %v\n", out[0], built.Digest, size(built.Size), built.Took.Round(time.Second))
	return nil
}
