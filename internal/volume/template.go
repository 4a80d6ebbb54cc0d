package volume

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	osexec "os/exec"
	"path/filepath"
	"strconv"
)

// blockSize is that of the file systems and of their devices.
const blockSize = 4096

// maxTemplates bounds how many are kept: an empty one takes up to a few hundred
// kilobytes, and there is one for each size that was ever asked for.
const maxTemplates = 16

// copyTemplate makes an image as a copy of the template of its size.
func (s *Store) copyTemplate(ctx context.Context, image string, size int64) error {
	template, err := s.template(ctx, size)
	if err != nil {
		return err
	}
	defer template.Close()
	f, err := os.OpenFile(image, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	err = copySparse(f, template)
	if err == nil {
		err = f.Sync() // before it has its name, which may reach the disk sooner
	}
	return errors.Join(err, f.Close())
}

// template opens the template of a size, which is made if it does not exist.
func (s *Store) template(ctx context.Context, size int64) (*os.File, error) {
	key := strconv.FormatInt(size, 10)
	release, err := s.busy.hold(ctx, templates+"/"+key)
	if err != nil {
		return nil, err
	}
	defer release()
	path := s.path(templates, key)
	for { // it may be removed again to make room
		f, err := os.Open(path)
		if !errors.Is(err, fs.ErrNotExist) {
			return f, err
		}
		if err := s.makeTemplate(ctx, path, size); err != nil {
			return nil, fmt.Errorf("template of %d bytes: %w", size, err)
		}
	}
}

func (s *Store) makeTemplate(ctx context.Context, path string, size int64) error {
	old, err := os.ReadDir(s.path(templates))
	if err == nil && len(old) >= maxTemplates {
		err = s.clear(templates, removeFile)
	}
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp(s.path(halfMade), "template-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	image := filepath.Join(dir, imageName)
	if err := makeImage(ctx, image, size); err != nil {
		return err
	}
	step("template")
	return os.Rename(image, path)
}

func removeFile(path string) error {
	if err := os.Remove(path); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// makeImage makes an image with an empty file system.
//
// Only what is not zero is written, so that copies are small and fast. It has a
// journal, without which it would have to be checked after a crash; a small
// one, which is a part of the volume's size. No blocks are reserved for root,
// who does not write there, nor for making it larger.
func makeImage(ctx context.Context, path string, size int64) error {
	program, err := mkfs()
	if err != nil {
		return err
	}
	f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer f.Close()
	if err := f.Truncate(size); err != nil {
		return err
	}
	journal := min(max(size/64, 4<<20), 32<<20) >> 20
	cmd := osexec.CommandContext(
		ctx, program, "-q", "-F",
		"-b", strconv.Itoa(blockSize), "-I", "256", "-i", "16384", "-m", "0",
		"-O", "has_journal,extent,64bit,metadata_csum,^resize_inode", "-J", "size="+strconv.FormatInt(journal, 10),
		"-E", "nodiscard,lazy_itable_init=1,lazy_journal_init=1,root_owner=0:0",
		path,
	)
	cmd.Env = []string{}
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("mkfs.ext4: %w: %.500s", err, bytes.TrimSpace(out))
	}
	return f.Sync()
}
