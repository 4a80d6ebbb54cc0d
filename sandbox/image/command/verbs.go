package command

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/hanzoai/sandbox/sandbox/image"
)

func pull(c *call) error {
	anonymous := c.flags.Bool("anonymous", false, "do not log in by the docker configuration")
	plain := c.flags.Bool("http", false, "without TLS")
	c.quietFlag()
	if err := c.parse(1, 1); err != nil {
		return err
	}
	// Who types a reference trusts its registry.
	host, _, _ := strings.Cut(c.args[0], "/")
	s, err := c.store(image.Registry{Host: host, Login: !*anonymous, HTTP: *plain})
	if err != nil {
		return err
	}
	return c.show("pull "+c.args[0], s.Pull(c.ctx, c.args[0]))
}

func importImage(c *call) error {
	c.quietFlag()
	if err := c.parse(2, 2); err != nil {
		return err
	}
	s, err := c.store()
	if err != nil {
		return err
	}
	return c.show("import "+c.args[1], s.Import(c.ctx, c.args[0], c.args[1]))
}

func export(c *call) error {
	c.quietFlag()
	if err := c.parse(2, 2); err != nil {
		return err
	}
	s, err := c.store()
	if err != nil {
		return err
	}
	return c.show("export "+c.args[0], s.Export(c.ctx, c.args[0], c.args[1]))
}

func list(c *call) error {
	asJSON := c.flags.Bool("json", false, "everything that is known, as JSON")
	if err := c.parse(0, 0); err != nil {
		return err
	}
	s, err := c.store()
	if err != nil {
		return err
	}
	images, err := s.List()
	if err != nil {
		return err
	}
	if *asJSON {
		e := json.NewEncoder(c.Stdout)
		e.SetIndent("", "  ")
		return e.Encode(images)
	}
	w := tabwriter.NewWriter(c.Stdout, 0, 8, 2, ' ', 0)
	fmt.Fprintln(w, "NAME\tDIGEST\tSIZE\tFILES\tUSED")
	for _, i := range images {
		names := i.Names
		if len(names) == 0 {
			names = []string{"-"}
		}
		for _, name := range names {
			fmt.Fprintf(w, "%s\t%s\t%s\t%d\t%s\n", name, i.Digest[:min(19, len(i.Digest))], size(i.Size), i.Entries, i.Used.Format(time.DateTime))
		}
	}
	return w.Flush()
}

func remove(c *call) error {
	if err := c.parse(1, math.MaxInt); err != nil {
		return err
	}
	s, err := c.store()
	if err != nil {
		return err
	}
	var errs []error
	for _, name := range c.args {
		errs = append(errs, s.Remove(name))
	}
	return errors.Join(errs...)
}

func gc(c *call) error {
	most := c.flags.Int64("max", 0, "remove pulled images that were not used for long, too, until the store has no more than so many `MiB`")
	if err := c.parse(0, 0); err != nil {
		return err
	}
	s, err := image.Open(image.Config{Dir: c.Dir, MaxStore: *most << 20})
	if err != nil {
		return err
	}
	done, err := s.GC(c.ctx)
	fmt.Fprintf(c.Stdout, "removed %d images, %d layers, %d blobs and %d temporary folders: %s\n",
		done.Images, done.Layers, done.Blobs, done.Temporary, size(done.Bytes))
	return err
}

// size is a number of bytes for people.
func size(n int64) string {
	switch {
	case n >= 1e9:
		return fmt.Sprintf("%.1f GB", float64(n)/1e9)
	case n >= 1e6:
		return fmt.Sprintf("%.0f MB", float64(n)/1e6)
	}
	return fmt.Sprintf("%.0f kB", float64(n)/1e3)
}

func (c *call) quietFlag() {
	c.flags.BoolVar(&c.quiet, "q", false, "do not tell how far it is")
}

// canKeep reports whether this user can put images into a store.
func canKeep() bool { return os.Geteuid() == 0 }
