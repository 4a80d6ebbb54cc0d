package recipe

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	osexec "os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
)

// options are mmdebstrap's, for every recipe.
var options = []string{
	"--variant=minbase",
	"--format=tar",
	`--essential-hook=mkdir -p "$1/usr/share/man/man1"`, // Java's alternatives want it
}

// dpkgOptions are dpkg's in there. Manuals and translations go, and what only
// compiling against scipy would need.
//
// They are not given to mmdebstrap, which would sift the essential packages by
// itself, at the cost of half a minute: it lets dpkg do so.
const dpkgOptions = `force-unsafe-io
path-exclude=/usr/share/man/*
path-exclude=/usr/share/info/*
path-exclude=/usr/share/locale/*
path-exclude=/usr/share/doc/*
path-include=/usr/share/doc/*/copyright
path-exclude=/usr/include/boost/*
`

// A Built is an image that has been built, as an OCI layout.
type Built struct {
	Digest string // of its manifest
	Size   int64  // of its one layer, compressed
	Files  int64  // bytes of its uncompressed archive
	Took   time.Duration
}

// Build builds a recipe's image, as an OCI layout in a folder that does not
// exist yet. What the programs that it runs say goes to log.
//
// It takes root, or user namespaces with which the user may have many ids, and
// some GB in $TMPDIR or else /var/tmp.
func Build(ctx context.Context, r *Recipe, dir string, log io.Writer) (_ *Built, err error) {
	start := time.Now()
	if err := r.checkPrograms(); err != nil {
		return nil, err
	}
	tmp, remove, err := workspace()
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, remove()) }()
	b := &build{Recipe: r, tmp: tmp, extra: filepath.Join(tmp, "extra"), log: log}
	if err := b.prepare(ctx); err != nil {
		return nil, fmt.Errorf("recipe %s: %w", r.Name, err)
	}
	built, err := b.run(ctx, dir)
	if err != nil {
		return nil, fmt.Errorf("recipe %s: %w", r.Name, err)
	}
	built.Took = time.Since(start)
	return built, nil
}

type build struct {
	*Recipe
	tmp, extra string
	log        io.Writer
	sources    []string
	updated    time.Time
}

// checkPrograms says which of the programs that a build runs are missing.
func (r *Recipe) checkPrograms() error {
	need := map[string]string{"mmdebstrap": "mmdebstrap", "apt-get": "apt", "apt-config": "apt"}
	if len(r.NPM) > 0 {
		need["npm"] = "npm"
	}
	if os.Geteuid() != 0 {
		need["newuidmap"] = "uidmap"
	}
	var missing []string
	for program, pkg := range need {
		if _, err := osexec.LookPath(program); err != nil {
			missing = append(missing, pkg)
		}
	}
	if len(missing) > 0 {
		slices.Sort(missing)
		return fmt.Errorf("recipe %s needs programs that are not here: apt-get install %s", r.Name, strings.Join(slices.Compact(missing), " "))
	}
	if _, err := osexec.LookPath("go"); err != nil && r.Go != "" {
		return fmt.Errorf("recipe %s needs the go command, to fetch a toolchain by", r.Name)
	}
	return nil
}

// prepare gathers what does not come from Debian.
func (b *build) prepare(ctx context.Context) error {
	if err := os.Mkdir(b.extra, 0o755); err != nil {
		return err
	}
	list, err := aptSources(ctx)
	if err != nil {
		return err
	}
	if b.sources, b.updated, err = mirrors(list, b.Suite); err != nil {
		return err
	}
	for i := range b.NPM {
		fmt.Fprintf(b.log, "fetch %s %s\n", b.NPM[i].Name, b.NPM[i].Version)
		if err := b.NPM[i].fetch(ctx, b.tmp, b.extra); err != nil {
			return err
		}
	}
	if b.Go == "" {
		return nil
	}
	fmt.Fprintf(b.log, "fetch Go %s\n", b.Go)
	return fetchGo(ctx, b.Go, b.tmp, b.extra)
}

// run runs mmdebstrap, and makes a layout of the archive that it writes as it
// comes.
func (b *build) run(ctx context.Context, dir string) (*Built, error) {
	cmd, err := b.command(ctx)
	if err != nil {
		return nil, err
	}
	said := &tail{}
	cmd.Stderr = io.MultiWriter(b.log, said)
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	built, err := b.layout(dir, out)
	_, _ = io.Copy(io.Discard, out) // so that it ends; its fate says the rest
	if failed := cmd.Wait(); failed != nil {
		killGroup(cmd) // of one that was interrupted something may be left
		err = fmt.Errorf("mmdebstrap: %w: %s", failed, said)
		if ctx.Err() != nil {
			err = context.Cause(ctx)
		}
	}
	if err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	return built, nil
}

func (b *build) command(ctx context.Context) (*osexec.Cmd, error) {
	aptOpts, err := aptOptions(ctx)
	if err != nil {
		return nil, err
	}
	files := map[string][]byte{
		"apt.conf":     aptOpts,
		"sources.list": []byte(strings.Join(b.sources, "\n") + "\n"),
		"dpkg.cfg":     []byte(dpkgOptions),
		"hook.sh":      []byte(hook),
	}
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(b.tmp, name), text, 0o644); err != nil {
			return nil, err
		}
	}
	mode := "--mode=unshare"
	if os.Geteuid() == 0 {
		mode = "--mode=root"
	}
	args := append([]string{mode}, options...)
	args = append(args,
		"--aptopt="+filepath.Join(b.tmp, "apt.conf"),
		"--include="+strings.Join(b.Include, ","),
		`--extract-hook=cp "`+filepath.Join(b.tmp, "dpkg.cfg")+`" "$1/etc/dpkg/dpkg.cfg.d/sandbox"`,
		`--customize-hook=sh "`+filepath.Join(b.tmp, "hook.sh")+`" "$1"`,
		b.Suite, "-", filepath.Join(b.tmp, "sources.list"),
	)
	cmd := osexec.CommandContext(ctx, "mmdebstrap", args...)
	cmd.Env = append(os.Environ(),
		"EXTRA="+b.extra,
		"TMPDIR="+b.tmp, // where the file system is made
		"SOURCE_DATE_EPOCH="+strconv.FormatInt(b.updated.Unix(), 10),
		"LC_ALL=C.UTF-8",
	)
	group(cmd)
	return cmd, nil
}

// tail keeps the end of what a program says.
type tail struct{ b bytes.Buffer }

const tailSize = 4 << 10

func (t *tail) Write(p []byte) (int, error) {
	t.b.Write(p)
	if over := t.b.Len() - tailSize; over > 0 {
		t.b.Next(over)
	}
	return len(p), nil
}

func (t *tail) String() string { return lastPart(t.b.String()) }
