package hostview

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
	"syscall"
)

// hostEtc names what is copied from the host's /etc, where programs of the view look for it. A copy, unlike
// a bind, leaves out what is not for every user to read, and cannot change under a running guest.
var hostEtc = []string{
	"alternatives", // what many links in /usr/bin lead to
	"ld.so.cache", "ld.so.conf", "ld.so.conf.d",
	"ca-certificates.conf", "ssl/certs", "ssl/openssl.cnf", // never ssl itself: ssl/private is in it
	"java-*-openjdk", // links in /usr/lib/jvm lead here
	"python3", "python3.[0-9]*", "perl", "R", "php",
	"fonts", "inputrc", "localtime", "timezone",
	"magic", "magic.mime", "mime.types", "protocols", "services",
	"debian_version", "os-release",
}

// The bounds of what is copied, far above what a machine has there. Beyond them something else has been put
// under one of the names, and to copy a part of it would be a guess.
const (
	maxFile    = 4 << 20
	maxTotal   = 32 << 20
	maxEntries = 20_000
)

// errChanged says that a file of the host changed between the survey and the copy.
var errChanged = errors.New("changed while it was copied")

func addHostEtc(p *plan, h host) error {
	s := etcScan{plan: p}
	for _, pattern := range hostEtc {
		if err := s.scan(pattern); err != nil {
			return fmt.Errorf("%s: %w", p.etc, err)
		}
	}
	return nil
}

// etcScan plans copies of the host's /etc. It looks only; what it saw is held to by copyTo.
type etcScan struct {
	plan    *plan
	total   int64
	entries int
}

func (s *etcScan) path(name string) string { return filepath.Join(s.plan.etc, name) }

func (s *etcScan) scan(pattern string) error {
	names := []string{pattern}
	if strings.ContainsAny(pattern, "*[") {
		var err error
		if names, err = fs.Glob(os.DirFS(s.plan.etc), pattern); err != nil {
			return err
		}
	}
	for _, name := range names {
		if info := s.reach(name); info != nil {
			if err := s.walk(name, info); err != nil {
				return err
			}
		}
	}
	return nil
}

// reach returns what name is, nil unless it is there and every user can get to it through directories alone.
func (s *etcScan) reach(name string) fs.FileInfo {
	for dir := path.Dir(name); dir != "."; dir = path.Dir(dir) {
		info, err := os.Lstat(s.path(dir))
		if err != nil || !info.IsDir() || info.Mode()&0o001 == 0 {
			return nil
		}
	}
	info, err := os.Lstat(s.path(name))
	if err != nil {
		return nil
	}
	return info
}

// walk plans a file and what is below it.
func (s *etcScan) walk(name string, info fs.FileInfo) error {
	if err := s.visit(name, info); err != nil {
		return err
	}
	if !isOpenDir(info) {
		return nil
	}
	list, err := os.ReadDir(s.path(name))
	if err != nil {
		return orChanged(err)
	}
	for _, d := range list {
		if err := s.step(path.Join(name, d.Name()), d); err != nil {
			return err
		}
	}
	return nil
}

func (s *etcScan) step(name string, d fs.DirEntry) error {
	if isLink(d.Type()) {
		// A link is never changed, only replaced, and then the times of its directory change: there is no
		// need to look at it, and most of what is copied are links.
		return s.visit(name, nil)
	}
	info, err := d.Info()
	if err != nil {
		return orChanged(err)
	}
	return s.walk(name, info)
}

// visit plans a file if it is of a kind, and has a mode, that lets every user read it. Without info it is a
// link.
func (s *etcScan) visit(name string, info fs.FileInfo) error {
	e := entry{name: "etc/" + name, from: name, info: info}
	switch {
	case info == nil || isLink(info.Mode()):
		e.mode = fs.ModeSymlink | 0o777
	case isOpenDir(info):
		e.mode = fs.ModeDir | 0o755
	case info.Mode().IsRegular() && info.Mode()&0o004 != 0:
		e.mode = 0o644 // and no more, so that a copy is never setuid
		if info.Mode()&0o001 != 0 {
			e.mode = 0o755
		}
		s.total += info.Size()
	default:
		return nil
	}
	s.plan.add(e)
	s.entries++
	return s.check(name, e)
}

func (s *etcScan) check(name string, e entry) error {
	switch {
	case e.mode.IsRegular() && e.info.Size() > maxFile:
		return fmt.Errorf("%s: larger than %d bytes", name, maxFile)
	case s.total > maxTotal:
		return fmt.Errorf("%s: more than %d bytes in all", name, maxTotal)
	case s.entries > maxEntries:
		return fmt.Errorf("%s: more than %d entries in all", name, maxEntries)
	}
	return nil
}

// copyTo copies the host's file behind e, if it is still the one that was surveyed. That is asked of the
// open file before it is read, so no other file can be put in its place, and again after.
func (e entry) copyTo(dst io.Writer, etc *os.Root) error {
	// Not to wait for a writer, should it have become a fifo.
	src, err := etc.OpenFile(e.from, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return orChanged(err)
	}
	defer src.Close()
	if err := e.same(src); err != nil {
		return err
	}
	if _, err := io.Copy(dst, io.LimitReader(src, e.size())); err != nil {
		return err
	}
	return e.same(src)
}

func (e entry) same(src *os.File) error {
	info, err := src.Stat()
	if err != nil {
		return err
	}
	if !os.SameFile(info, e.info) || info.Size() != e.info.Size() || changeTime(info) != changeTime(e.info) {
		return fmt.Errorf("%s: %w", src.Name(), errChanged)
	}
	return nil
}

// orChanged marks the error of a file that has gone since it was listed.
func orChanged(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%w: %w", errChanged, err)
	}
	return err
}
