//go:build linux

package sandbox

import (
	"encoding/json"
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

// Sizes of the memory file systems inside, for which they count: a part of the
// sandbox's memory, and a little.
const (
	shmPart = 16
	runSize = 1 << 20
)

// places are the folders of one sandbox on this machine.
type places struct {
	dir       string // the sandbox's own folder
	run       string // in it, what goes with the engine:
	bundle    string // has config.json
	disk      string // has a folder for each scratch
	socket    string // has the init's socket
	initLog   string // what the init and the engine printed
	engineLog string
	bin       string // has the executable that is the init
}

func placesOf(dir, bin string) places {
	run := filepath.Join(dir, "run")
	return places{
		dir: dir, run: run, bin: bin,
		bundle:    filepath.Join(run, "bundle"),
		disk:      filepath.Join(run, "disk"),
		socket:    filepath.Join(run, "sock"),
		initLog:   filepath.Join(run, "init.log"),
		engineLog: filepath.Join(run, "engine.log"),
	}
}

func (p places) initSocket() string { return filepath.Join(p.socket, socketName) }

// A layout is what makes one sandbox's file systems another's.
type layout struct {
	workdir string
	volume  string // the folder that is the workdir; without one it is a scratch
	disk    int64  // in bytes, that a workdir without a volume may hold
	limits  Limits
}

// bundleSpec is the OCI runtime configuration of a sandbox. It does no I/O.
func bundleSpec(p places, image *Image, l *layout) *specs.Spec {
	mounts, hints := append(systemMounts(l.limits.Memory), ownMounts(p, image, l)...), map[string]string{}
	for _, s := range scratches(l) {
		mounts = append(mounts, s.mount(p))
		s.hint(hints, p)
	}
	return &specs.Spec{
		Version:  specs.Version,
		Root:     &specs.Root{Path: image.Root, Readonly: true},
		Hostname: userName,
		Process:  initProcess(),
		Mounts:   mounts,
		Linux: &specs.Linux{
			Resources: l.limits.resources(),
			Namespaces: []specs.LinuxNamespace{
				{Type: specs.PIDNamespace},
				{Type: specs.IPCNamespace},
				{Type: specs.UTSNamespace},
				{Type: specs.MountNamespace},
				{Type: specs.NetworkNamespace},
				{Type: specs.CgroupNamespace},
			},
		},
		Annotations: hints,
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
	return []specs.Mount{
		{Destination: "/proc", Type: "proc"},
		{Destination: "/dev", Type: "tmpfs"},
		{Destination: "/dev/pts", Type: "devpts"},
		tmpfs("/dev/shm", memory/shmPart, "mode=1777"),
		{Destination: "/sys", Type: "sysfs", Options: []string{"ro"}},
		{Destination: "/sys/fs/cgroup", Type: "cgroup"},
		tmpfs("/run", runSize, "mode=0755"),
	}
}

func tmpfs(at string, size int64, options ...string) specs.Mount {
	return specs.Mount{
		Destination: at, Type: "tmpfs", Source: "tmpfs",
		Options: append([]string{"nosuid", "nodev", "size=" + strconv.FormatInt(size, 10)}, options...),
	}
}

func ownMounts(p places, image *Image, l *layout) []specs.Mount {
	mounts := make([]specs.Mount, 0, len(image.Binds)+3)
	for _, b := range image.Binds {
		mounts = append(mounts, specs.Mount{Destination: b.Target, Type: "bind", Source: b.Source, Options: []string{"rbind", "ro", "nosuid", "nodev"}})
	}
	mounts = append(mounts,
		specs.Mount{Destination: guestBin, Type: "bind", Source: p.bin, Options: []string{"bind", "ro", "nosuid", "nodev"}},
		specs.Mount{Destination: guestSocket, Type: "bind", Source: p.socket, Options: []string{"bind", "nosuid", "nodev", "noexec"}},
	)
	if l.volume != "" {
		mounts = append(mounts, specs.Mount{Destination: l.workdir, Type: "bind", Source: l.volume, Options: []string{"bind", "nosuid", "nodev"}})
	}
	return mounts
}

// prepare makes the bundle of an engine, and the folders that it names.
func (p places) prepare(spec *specs.Spec) error {
	b, err := json.Marshal(spec)
	if err != nil {
		return err
	}
	dirs := []string{p.run, p.bundle, p.socket, p.disk}
	for _, m := range spec.Mounts {
		if filepath.Dir(m.Source) == p.disk {
			dirs = append(dirs, m.Source)
		}
	}
	for _, dir := range dirs {
		if err := os.Mkdir(dir, 0o700); err != nil {
			return err
		}
	}
	return os.WriteFile(filepath.Join(p.bundle, "config.json"), b, 0o600)
}
