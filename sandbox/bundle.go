package sandbox

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strconv"

	"github.com/opencontainers/runtime-spec/specs-go"

	"github.com/hanzoai/sandbox/internal/guest"
)

// Where the init's own things are inside. Only the guest's root can enter.
const (
	guestBin    = "/run/sandbox/bin"
	guestSocket = "/run/sandbox/sock"
	socketName  = "init"
)

// Sizes of the memory file systems inside, as parts of the sandbox's memory,
// for which they count: all of them full leave programs half of it.
const (
	tmpPart = 8
	shmPart = 16
	runSize = 1 << 20
)

// places are the folders of one sandbox on this machine.
type places struct {
	dir    string // the sandbox's own folder
	bin    string // has the executable that is the init
	bundle string // has config.json
	data   string // is the workdir
	socket string // has the init's socket
}

func placesOf(dir, bin string) places {
	return places{
		dir: dir, bin: bin,
		bundle: filepath.Join(dir, "bundle"),
		data:   filepath.Join(dir, "data"),
		socket: filepath.Join(dir, "sock"),
	}
}

// bundleSpec is the OCI runtime configuration of a sandbox. It does no I/O.
func bundleSpec(p places, image *Image, c class, l Limits) *specs.Spec {
	return &specs.Spec{
		Version:  specs.Version,
		Root:     &specs.Root{Path: image.Root, Readonly: true},
		Hostname: userName,
		Process:  initProcess(),
		Mounts:   append(systemMounts(l.Memory), ownMounts(p, image, c)...),
		Linux: &specs.Linux{
			Resources: l.resources(),
			Namespaces: []specs.LinuxNamespace{
				{Type: specs.PIDNamespace},
				{Type: specs.IPCNamespace},
				{Type: specs.UTSNamespace},
				{Type: specs.MountNamespace},
				{Type: specs.NetworkNamespace},
				{Type: specs.CgroupNamespace},
			},
		},
	}
}

// initProcess is the init. It changes to the users it works for and signals
// their processes; beyond that it has no capability and can gain none.
func initProcess() *specs.Process {
	caps := []string{"CAP_SETUID", "CAP_SETGID", "CAP_KILL"}
	return &specs.Process{
		Args:            []string{guest.Init, guestSocket + "/" + socketName},
		Cwd:             "/",
		Capabilities:    &specs.LinuxCapabilities{Bounding: caps, Effective: caps, Permitted: caps},
		NoNewPrivileges: true,
		Rlimits:         []specs.POSIXRlimit{{Type: "RLIMIT_NOFILE", Soft: 1 << 16, Hard: 1 << 16}},
	}
}

func systemMounts(memory int64) []specs.Mount {
	tmpSize := memory / tmpPart
	return []specs.Mount{
		{Destination: "/proc", Type: "proc"},
		{Destination: "/dev", Type: "tmpfs"},
		{Destination: "/dev/pts", Type: "devpts"},
		tmpfs("/dev/shm", memory/shmPart, "mode=1777"),
		{Destination: "/sys", Type: "sysfs", Options: []string{"ro"}},
		{Destination: "/sys/fs/cgroup", Type: "cgroup"},
		tmpfs("/run", runSize, "mode=0755"),
		tmpfs("/tmp", tmpSize, "mode=1777"),
		tmpfs("/var/tmp", tmpSize, "mode=1777"),
		tmpfs(homeDir, tmpSize, "mode=0755", "uid="+strconv.Itoa(defaultUID), "gid="+strconv.Itoa(defaultUID)),
	}
}

func tmpfs(at string, size int64, options ...string) specs.Mount {
	return specs.Mount{
		Destination: at, Type: "tmpfs", Source: "tmpfs",
		Options: append([]string{"nosuid", "nodev", "size=" + strconv.FormatInt(size, 10)}, options...),
	}
}

func ownMounts(p places, image *Image, c class) []specs.Mount {
	mounts := make([]specs.Mount, 0, len(image.Binds)+3)
	for _, b := range image.Binds {
		mounts = append(mounts, specs.Mount{Destination: b.Target, Type: "bind", Source: b.Source, Options: []string{"rbind", "ro", "nosuid", "nodev"}})
	}
	return append(mounts,
		specs.Mount{Destination: guestBin, Type: "bind", Source: p.bin, Options: []string{"bind", "ro", "nosuid", "nodev"}},
		specs.Mount{Destination: guestSocket, Type: "bind", Source: p.socket, Options: []string{"bind", "nosuid", "nodev", "noexec"}},
		specs.Mount{Destination: c.workdir, Type: "bind", Source: p.data, Options: []string{"bind", "nosuid", "nodev"}},
	)
}

// environment is what every command of a sandbox starts with.
func environment(image *Image, extra []string) []string {
	env := []string{
		"PATH=/usr/local/bin:/usr/bin:/bin",
		"HOME=" + homeDir, "USER=" + userName, "LOGNAME=" + userName,
		"LANG=C.UTF-8",
	}
	return append(append(env, image.Env...), extra...)
}

// write makes the sandbox's folders and the bundle.
func (p places) write(spec *specs.Spec) error {
	b, err := json.Marshal(spec)
	if err != nil {
		return err
	}
	for _, dir := range []string{p.bundle, p.socket, p.data} {
		if err := os.Mkdir(dir, 0o700); err != nil {
			return err
		}
	}
	if err := errors.Join(os.Chown(p.data, defaultUID, defaultUID), os.Chmod(p.data, 0o755)); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(p.bundle, "config.json"), b, 0o600)
}
