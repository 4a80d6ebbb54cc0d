//go:build linux

package sandbox_test

import (
	"os"
	"strings"
	"testing"

	"github.com/matryer/is"

	"github.com/hanzoai/sandbox/internal/runtimetest"
	"github.com/hanzoai/sandbox/sandbox"
)

// sh returns what a shell line prints, on either stream, whatever its exit
// code.
func sh(t *testing.T, sb *sandbox.Sandbox, line string) string {
	t.Helper()
	out, err := sb.Command("sh", "-c", line+"\n:").CombinedOutput(t.Context())
	if err != nil {
		t.Fatalf("%s: %v\n%s", line, err, out)
	}
	return strings.TrimSpace(string(out))
}

func TestSurroundings(t *testing.T) {
	t.Setenv("SECRET_OF_THE_HOST", "leaked")
	sb := runtimetest.Lease(t, sandbox.Spec{Env: []string{"OWN=yes"}})
	for line, want := range map[string]string{
		`pwd`:                               "/mnt/data",
		`id -u; id -g; id -G`:               "1000\n1000\n1000",
		`id -un; cd ~ && pwd`:               "sandbox\n/home/sandbox",
		`hostname 2>/dev/null || uname -n`:  "sandbox",
		`stat -c '%a %U' /mnt/data`:         "755 sandbox",
		`stat -c %a /tmp /var/tmp /dev/shm`: "1777\n1777\n1777",
		`touch /tmp/x /dev/shm/x ~/x /mnt/data/x && echo ok`:    "ok",
		`locale charmap 2>/dev/null || echo UTF-8`:              "UTF-8",
		`env | grep -c SECRET; echo $OWN`:                       "0\nyes",
		`dmesg | grep -o gVisor | head -1`:                      "gVisor",
		`head -c 3 /etc/passwd; getent hosts localhost | wc -l`: "roo1",
		`ls -A /home /run`:                                      "/home:\nsandbox\n\n/run:\nsandbox",
	} {
		t.Run(line, func(t *testing.T) {
			is := is.New(t)
			is.Equal(sh(t, sb, line), want)
		})
	}
}

// escapes are what a hostile program may try. Each has to print "no".
var escapes = map[string]string{
	"the init's socket":       `ls /run/sandbox/sock/init`,
	"the init's binary":       `cat /run/sandbox/bin/init`,
	"the init's memory":       `cat /proc/1/mem`,
	"the init's files":        `ls /proc/1/fd/ /proc/1/root/`,
	"the init's environment":  `cat /proc/1/environ`,
	"a signal to the init":    `kill -9 1`,
	"tracing the init":        `test -r /proc/1/maps && cat /proc/1/maps`,
	"its own cgroup":          `echo $$ > /sys/fs/cgroup/cgroup.procs`,
	"a cgroup of its own":     `mkdir /sys/fs/cgroup/mine`,
	"its limit":               `echo max > /sys/fs/cgroup$(cut -d: -f3 /proc/self/cgroup)/pids.max`,
	"the system":              `touch /usr/bin/x`,
	"the root folder":         `touch /x`,
	"the settings":            `touch /etc/x`,
	"the host's shadow":       `cat /etc/shadow`,
	"root's folder":           `ls /root`,
	"a mount":                 `mount -t tmpfs none /tmp`,
	"a device":                `mknod /tmp/d b 8 0`,
	"root by setuid programs": `f=$(find /usr/bin -perm -4000 | head -1); test -n "$f" && su -c true </dev/null`,
	"the network":             `cat /sys/class/net/eth0/address`,
	"a capability":            `grep -q 'CapEff:.*[1-9a-f]' /proc/self/status`,
	"gaining privileges":      `grep -q 'NoNewPrivs:.*0' /proc/self/status`,
	"the host's processes":    `grep -als init.scope /proc/[0-9]*/cgroup`,
}

func TestEscapes(t *testing.T) {
	sb := runtimetest.Lease(t, sandbox.Spec{})
	for name, try := range escapes {
		t.Run(name, func(t *testing.T) {
			is := is.New(t)
			is.Equal(sh(t, sb, "("+try+") >/dev/null 2>&1 && echo yes || echo no"), "no")
		})
	}
}

// secrets are places of this machine that no image of it may show.
func TestHostImageHidesTheHost(t *testing.T) {
	is := is.New(t)
	sb := runtimetest.Lease(t, sandbox.Spec{})
	for _, path := range []string{
		"/etc/shadow", "/etc/gshadow", "/etc/machine-id", "/etc/npmrc", "/etc/pip.conf", "/etc/gitconfig",
		"/etc/apt", "/etc/ssl/private", "/usr/local/etc", "/var/lib/dpkg", "/var/log/dpkg.log", "/root/.bashrc",
		"/boot", "/home/sandbox/..data", "/proc/kcore",
	} {
		is.Equal(sh(t, sb, `test -e "`+path+`" && echo there || echo hidden`), "hidden") // hidden
	}
	wd, err := os.Getwd()
	is.NoErr(err)
	is.Equal(sh(t, sb, `test -e "`+wd+`" && echo there || echo hidden`), "hidden") // this repository
}

func TestLoopbackOnly(t *testing.T) {
	is := is.New(t)
	sb := runtimetest.Lease(t, sandbox.Spec{})
	if _, err := sb.Command("python3", "--version").Output(t.Context()); err != nil {
		runtimetest.Lacks(t, "this machine has no python3 to look with: ", err)
	}
	script := `
import socket
s = socket.create_server(("127.0.0.1", 0))
socket.create_connection(s.getsockname()).close()
s6 = socket.create_server(("::1", 0), family=socket.AF_INET6)
socket.create_connection(s6.getsockname()[:2]).close()
print("loopback")
for host in "192.0.2.1", "169.254.169.254":
    try:
        socket.create_connection((host, 80), 2)
        print("reached", host)
    except OSError as e:
        print(type(e).__name__, e.errno)
`
	out, err := sb.Command("python3", "-c", script).CombinedOutput(t.Context())
	is.NoErr(err)
	is.Equal(string(out), "loopback\nOSError 101\nOSError 101\n")
}
