package sandboxtest

import (
	"slices"
	"sync"
	"time"

	"github.com/hanzoai/sandbox/sandbox"
)

// An instance is a sandbox of a Memory.
type instance struct {
	memory *Memory
	id     string
	owner  sandbox.Owner
	env    []string
	disk   *disk
	fixed  bool

	// moving has a place for whoever takes the sandbox from one status to
	// another; it is taken before Memory.mu and mu. To wait for a channel,
	// other than for a mutex, lets a test's own time go on.
	moving chan struct{}
	over   bool // nothing of it is left

	mu      sync.Mutex
	info    sandbox.Info
	ttl     time.Duration // of the lease as it was taken
	box     *box          // nil unless it runs
	leaving error         // why the box is about to end
	clock   *time.Timer   // of the box
}

func newInstance(m *Memory, spec *sandbox.Spec) *instance {
	id := newID()
	return &instance{
		memory: m, id: id, owner: spec.Owner, env: slices.Clone(spec.Env), fixed: spec.Fixed,
		moving: make(chan struct{}, 1),
		info: sandbox.Info{
			ID: id, Owner: spec.Owner, Class: spec.Class, Project: spec.Project, Image: spec.Image,
			Workdir: classes[spec.Class].Workdir, Volume: volumeName(id, spec),
		},
	}
}

// move begins a change of status, which the returned function ends.
func (s *instance) move() (done func()) {
	s.moving <- struct{}{}
	return func() { <-s.moving }
}

// start makes it a sandbox that runs, for ttl from now.
func (s *instance) start(ttl time.Duration) {
	b := newBox(s)
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	s.box, s.ttl = b, ttl
	s.info.Status = sandbox.StatusRunning
	s.info.Created, s.info.Used, s.info.Connected = now, now, time.Time{}
	s.info.Expires = now.Add(ttl)
	s.clock = time.AfterFunc(s.wait(now), func() { s.tick(b) })
}

// stop ends what runs, and returns when all of it has. The caller is moving.
func (s *instance) stop(why error) {
	s.mu.Lock()
	b := s.box
	s.leaving = why
	s.mu.Unlock()
	if b == nil {
		return
	}
	b.end(why)
	b.work.Wait()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.box = nil
	s.clock.Stop()
}

// end ends the sandbox, with purge also its project's files.
func (s *instance) end(purge bool) error {
	defer s.move()()
	if s.over {
		return sandbox.ErrEnded
	}
	s.stop(sandbox.ErrEnded)
	s.over = true
	m := s.memory
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.instances, s.id)
	m.ended[s.id] = true
	if purge {
		delete(m.disks, s.info.Volume)
	}
	return nil
}

func (s *instance) describe() sandbox.Info {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.box != nil && s.box.watched > 0 {
		s.info.Connected = time.Now()
	}
	return s.info
}
