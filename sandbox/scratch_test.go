//go:build linux

package sandbox_test

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/matryer/is"
	"golang.org/x/sys/unix"

	"github.com/hanzoai/sandbox/internal/runtimetest"
	"github.com/hanzoai/sandbox/sandbox"
)

// withDisk are the classes of a Runtime whose default one has so much disk.
func withDisk(size int64) []sandbox.Class {
	return []sandbox.Class{{Name: sandbox.ClassExec, TTL: time.Hour, Workdir: "/mnt/data", Disk: size}}
}

// leaseOn returns a sandbox of a Runtime on a new Root, and its folder there.
func leaseOn(t *testing.T, classes ...sandbox.Class) (sb *sandbox.Sandbox, dir string) {
	t.Helper()
	root := t.TempDir()
	sb, err := runtimetest.New(t, sandbox.Config{Root: root, Classes: classes}).Lease(t.Context(), sandbox.Spec{})
	if err != nil {
		t.Fatal(err)
	}
	return sb, filepath.Join(root, "sandboxes", sb.ID())
}

// onDisk is how many bytes of this machine's disk a folder takes.
func onDisk(t *testing.T, dir string) int64 {
	t.Helper()
	total := int64(0)
	err := filepath.WalkDir(dir, func(_ string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := e.Info()
		if err == nil {
			total += info.Sys().(*syscall.Stat_t).Blocks * 512
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return total
}

func TestScratchSizes(t *testing.T) {
	is := is.New(t)
	sb := runtimetest.Lease(t, sandbox.Spec{})
	is.Equal(sh(t, sb, `df -m --output=size . ~ /tmp /var/tmp /dev/shm | tail -n +2 | tr -d ' '`), "2048\n512\n512\n512\n256")
}

// TestScratchesFull: on all that can be written to together, programs get
// ENOSPC where df says that the end is, this machine loses no more than that,
// and gets it back.
func TestScratchesFull(t *testing.T) {
	is := is.New(t)
	root := t.TempDir()
	rt := runtimetest.New(t, sandbox.Config{Root: root, Classes: withDisk(64 * mib)})
	sb, err := rt.Lease(t.Context(), sandbox.Spec{})
	is.NoErr(err)
	dir := filepath.Join(root, "sandboxes", sb.ID())
	for at, size := range map[string]int{"/mnt/data": 64, "/home/sandbox": 16, "/tmp": 16, "/var/tmp": 16} {
		is.Equal(sh(t, sb, fmt.Sprintf(`cd %s; df -m --output=size,avail . | tail -1 | xargs`, at)), fmt.Sprintf("%d %d", size, size))
		is.Equal(sh(t, sb, fmt.Sprintf(`cd %s; yes | dd bs=1M of=big iflag=fullblock 2>&1 | grep -o "No space left on device"; stat -c %%s big`, at)),
			fmt.Sprintf("No space left on device\n%d", size*mib)) // all of it can be had, and no more
		is.Equal(sh(t, sb, fmt.Sprintf(`cd %s; df -m --output=avail . | tail -1 | xargs; echo x 2>/dev/null > small || echo full`, at)), "0\nfull")
	}
	held := onDisk(t, dir)
	is.True(held > 64*mib) // so it does lie there
	is.True(held < (64+3*16+1)*mib)

	other, err := rt.Lease(t.Context(), sandbox.Spec{})
	is.NoErr(err)
	is.Equal(sh(t, other, `head -c 8M /dev/zero > x && df -m --output=used,avail . | tail -1 | xargs`), "8 56")

	is.Equal(sh(t, sb, `rm /mnt/data/big ~/big /tmp/big /var/tmp/big && df --output=used . ~ /tmp /var/tmp | tail -n +2 | tr -d ' '`), "0\n0\n0\n0")
	for onDisk(t, dir) > 2*mib && t.Context().Err() == nil { // the engine gives it back by and by
		sh(t, sb, "true")
	}
	is.NoErr(sb.End(t.Context()))
	_, err = os.Lstat(dir)
	is.True(os.IsNotExist(err))
}

// TestScratchTakesTurns: what is written and removed over and over does not
// pile up on the disk.
func TestScratchTakesTurns(t *testing.T) {
	is := is.New(t)
	sb, dir := leaseOn(t, withDisk(32*mib)...)
	for range 5 {
		is.Equal(sh(t, sb, `head -c 30M /dev/zero > x; stat -c %s x; rm x`), strconv.Itoa(30*mib))
		is.True(onDisk(t, dir) < 34*mib)
	}
}

// TestScratchIsNotMemory: what is written there is page cache of this machine.
func TestScratchIsNotMemory(t *testing.T) {
	is := is.New(t)
	sb, dir := leaseOn(t)
	pid, err := runtimetest.EnginePID(filepath.Dir(filepath.Dir(dir)), sb.ID())
	is.NoErr(err)
	held := func() int {
		b, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
		is.NoErr(err)
		return (figure(b, "RssAnon") + figure(b, "RssShmem")) / 1024
	}
	before := held()
	is.Equal(sh(t, sb, `head -c 64M /dev/zero > x; head -c 64M /dev/zero > /tmp/x; cat x /tmp/x | wc -c`), strconv.Itoa(128*mib))
	is.True(held() < before+24)
	is.Equal(sh(t, sb, `head -c 64M /dev/zero > /dev/shm/x; cat /dev/shm/x | wc -c`), strconv.Itoa(64*mib))
	is.True(held() > before+56) // as it should for this
}

// TestScratchHoldsAll: it is a file system like any other.
func TestScratchHoldsAll(t *testing.T) {
	sb := runtimetest.Lease(t, sandbox.Spec{})
	for _, c := range []struct{ what, line, want string }{
		{"hard link", `echo a > 1; ln 1 2; echo b >> 2; cat 1; stat -c %h 1`, "a\nb\n2"},
		{"symbolic link", `ln -s 3 4; echo c > 3; cat 4; readlink 4`, "c\n3"},
		{"fifo", `mkfifo 5; echo d > 5 & cat 5`, "d"},
		{"folder", `mkdir 6 && mv 1 6/7 && chmod 640 6/7 && stat -c '%a %u %g' 6/7`, "640 1000 1000"},
		{"program", `cp /bin/echo 8 && ./8 e`, "e"},
		{"compiler", `printf '#include <stdio.h>\nint main(){puts("f");return 0;}\n' > 9.c && gcc -o 9 9.c && ./9`, "f"},
		{"shared memory", `python3 -c 'import mmap, os
f = open("10", "w+b"); f.truncate(8192)
m = mmap.mmap(f.fileno(), 8192); m[4096:4097] = b"g"
if os.fork() == 0: m[4097:4098] = b"h"; os._exit(0)
os.wait(); print(open("10").read()[4096:4098])'`, "gh"},
		{"unix socket", `python3 -c 'import socket
s = socket.socket(socket.AF_UNIX); s.bind("11"); s.listen()
c = socket.socket(socket.AF_UNIX); c.connect("11"); c.send(b"i")
print(s.accept()[0].recv(1).decode())'`, "i"},
		{"hole", `truncate -s 1G 12; df -m --output=used . | tail -1 | xargs; tail -c 1 12 | od -An -tu1 | xargs`, "1\n0"},
		{"lock", `flock 13 echo j`, "j"},
		{"times", `touch -d @5 14; stat -c %Y 14`, "5"},
	} {
		t.Run(c.what, func(t *testing.T) {
			is := is.New(t)
			is.Equal(sh(t, sb, c.line), c.want)
		})
	}
}

// TestScratchOnFullDisk: where this machine's own disk is full first, programs
// are told, and the sandbox lives on.
func TestScratchOnFullDisk(t *testing.T) {
	is := is.New(t)
	root := t.TempDir()
	small := filepath.Join(root, "sandboxes")
	is.NoErr(os.Mkdir(small, 0o700))
	is.NoErr(unix.Mount("small", small, "tmpfs", 0, "size=16m"))
	t.Cleanup(func() { is.NoErr(unix.Unmount(small, 0)) })
	sb, err := runtimetest.New(t, sandbox.Config{Root: root}).Lease(runtimetest.Context(t, time.Minute), sandbox.Spec{})
	is.NoErr(err)
	is.Equal(sh(t, sb, `yes | dd bs=1M count=64 of=x iflag=fullblock 2>&1 | grep -o "No space left on device"`), "No space left on device")
	is.Equal(sh(t, sb, `python3 -c 'import mmap
f = open("y", "w+b"); f.truncate(64 << 20); m = mmap.mmap(f.fileno(), 64 << 20)
for i in range(0, 64 << 20, 4096): m[i] = 1' 2>/dev/null; echo $?`), "135") // SIGBUS, to the program
	is.Equal(sh(t, sb, `rm x y; echo z > z && cat z`), "z")
}
