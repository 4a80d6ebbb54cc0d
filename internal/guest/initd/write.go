package initd

import (
	"errors"
	"io/fs"
	"os"
	"strconv"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/hanzoai/sandbox/internal/guest/sys"
	"github.com/hanzoai/sandbox/internal/guest/wire"
)

// write replaces a file by what the host sends, all of it or nothing: a
// reader sees the old file or the new one.
func (s *server) write(c *conn, r *wire.Request) error {
	var up *upload
	err := s.user.do(func() (err error) {
		up, err = newUpload(r.Path, r.Perm)
		return err
	})
	if err != nil {
		return err
	}
	if err := up.receive(c); err != nil {
		s.user.do(up.abort)
		return err
	}
	if err := s.user.do(up.commit); err != nil {
		s.user.do(up.abort)
		return err
	}
	return c.send(wire.KindOK, nil)
}

// An upload is a file that is being written beside the one it will replace.
type upload struct {
	f         *os.File
	temp, end string
}

// newUpload opens the new file. A link at name stays one: the file that it
// points to is replaced.
func newUpload(name string, perm uint32) (*upload, error) {
	end, err := resolve(name)
	if err != nil {
		return nil, err
	}
	var st syscall.Stat_t
	switch err := syscall.Stat(end, &st); {
	case err == syscall.ENOENT:
		perm &^= 0o022
		if err := os.MkdirAll(folder(end), 0o755); err != nil {
			return nil, err
		}
	case err != nil:
		return nil, pathError("write", name, err)
	case st.Mode&syscall.S_IFMT == syscall.S_IFDIR:
		return nil, pathError("write", name, syscall.EISDIR)
	case st.Mode&syscall.S_IFMT != syscall.S_IFREG:
		return nil, errNotRegular
	case st.Uid != UID:
		// The folder's owner could replace it, but it was not theirs to change.
		if err := sys.Writable(end); err != nil {
			return nil, pathError("write", name, err)
		}
		perm = st.Mode
	default:
		perm = st.Mode // also if it is read-only: its owner may change that too
	}
	return createBeside(end, perm&0o777)
}

var uploads atomic.Uint64

// createBeside makes the temporary file in the folder of the one to come: a
// rename cannot leave a file system. Its name is short, so that any name that
// fits can be written.
func createBeside(end string, perm uint32) (*upload, error) {
	for {
		id := strconv.FormatUint(uploads.Add(1), 36) + "-" + strconv.FormatInt(time.Now().UnixNano(), 36)
		temp := folder(end) + ".upload-" + id
		f, err := os.OpenFile(temp, os.O_WRONLY|os.O_CREATE|os.O_EXCL|syscall.O_NOFOLLOW, 0o600)
		if errors.Is(err, fs.ErrExist) {
			continue
		}
		if err != nil {
			return nil, err
		}
		up := &upload{f: f, temp: temp, end: end}
		if err := f.Chmod(os.FileMode(perm)); err != nil {
			up.abort()
			return nil, err
		}
		return up, nil
	}
}

// maxLinks is how many links the kernel follows.
const maxLinks = 40

// resolve follows the links at name, not those on the way to it: the kernel
// does that.
func resolve(name string) (string, error) {
	for range maxLinks + 1 {
		target, err := os.Readlink(name)
		if err != nil {
			return name, nil
		}
		if target == "" {
			break
		}
		if target[0] != '/' {
			target = folder(name) + target
		}
		name = target
	}
	return "", pathError("write", name, syscall.ELOOP)
}

// receive writes what the host sends until it says that this was all.
func (up *upload) receive(c *conn) error {
	for {
		kind, payload, err := c.in.Next()
		if err != nil {
			return err
		}
		switch kind {
		case wire.KindData:
			if _, err := up.f.Write(payload); err != nil {
				return err
			}
		case wire.KindEnd:
			return nil
		case wire.KindKill:
			return syscall.ECANCELED
		default:
			return syscall.EPROTO
		}
	}
}

func (up *upload) commit() error {
	if err := up.f.Close(); err != nil {
		return err
	}
	return pathError("write", up.end, syscall.Rename(up.temp, up.end))
}

func (up *upload) abort() error {
	up.f.Close()
	return os.Remove(up.temp)
}
