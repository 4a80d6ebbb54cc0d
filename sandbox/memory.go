//go:build linux

package sandbox

import (
	"context"
	"errors"
	"math"
	"syscall"
	"time"

	"github.com/hanzoai/sandbox/internal/cgroup"
	"github.com/hanzoai/sandbox/internal/guest/wire"
)

// The kernel knows one answer to a group that has reached its limit: it kills
// a process, and the engine is all of them. So the limit of a sandbox is kept
// by its Runtime, which looks at the memory in use and has the init kill the
// largest command; the kernel's own limit stands above, for when that is too
// slow. What is looked at leaves the page cache out, with which a sandbox that
// writes files fills any limit.

const (
	// growth is the fastest that memory is taken to grow, in bytes a second.
	growth = 4 << 30
	// fastLook and slowLook bound how often it is looked at.
	fastLook = 5 * time.Millisecond
	slowLook = time.Second
	// shedTimeout bounds the killing of one command.
	shedTimeout = 5 * time.Second
	// shedSettle is how long a killed command's memory may take to be given
	// back before the next is killed.
	shedSettle = 250 * time.Millisecond
	// helpless is how long there is nothing to kill if there was nothing, as
	// long as memory grows by no more than newcomer: a command that starts
	// then is not to be let go on for as long.
	helpless = 50 * time.Millisecond
	newcomer = 4 << 20
)

// A memoryWatch keeps one sandbox below its limit.
type memoryWatch struct {
	*instance
	*life
	meter *cgroup.Meter
	limit int64
	near  bool // to the limit, when it was last looked
	alone bool // and nothing could be killed
	old   bool // the init cannot kill any

	// Of alone: how much was used, and when to try again.
	least int64
	again time.Time
}

// watchMemory watches until the life ends or the Runtime lets it go.
func (s *instance) watchMemory(l *life) {
	w := &memoryWatch{instance: s, life: l, limit: s.row.Limits.Memory}
	var err error
	if w.meter, err = s.controlGroup().Meter(); err != nil || w.limit == 0 {
		return // as Enforcement tells
	}
	defer w.meter.Close()
	next := time.NewTimer(0)
	defer next.Stop()
	for {
		select {
		case <-l.gone:
			return
		case <-s.runtime.ctx.Done():
			return
		case <-next.C:
		}
		wait, err := w.look()
		if err != nil {
			w.stopped(err)
			return
		}
		next.Reset(wait)
	}
}

// stopped tells of a group that cannot be read, unless it has been removed.
func (w *memoryWatch) stopped(err error) {
	if !errors.Is(err, syscall.ENODEV) {
		w.runtime.log.Error("memory is not watched any more", "id", w.id, "error", err)
	}
}

// look does what is to be done now and returns when to look again.
func (w *memoryWatch) look() (time.Duration, error) {
	used, err := w.used()
	if err != nil {
		return 0, err
	}
	wasNear := w.near
	w.near = used > w.limit/2
	if w.near || wasNear { // it takes longer than that to get to where the kernel kills
		kills, err := w.meter.Kills()
		if err != nil {
			return 0, err
		}
		if kills > 0 {
			w.endBroken()
			return slowLook, nil
		}
	}
	switch {
	case w.old:
		return slowLook, nil
	case used < w.limit:
		w.alone = false
		return together(time.Now(), pace(w.limit-used)), nil
	case w.alone && used < w.least+newcomer && time.Now().Before(w.again):
		return fastLook, nil
	}
	return w.shed(used)
}

// used is the memory in use, or an amount below the limit that it is not
// above.
func (w *memoryWatch) used() (int64, error) {
	total, err := w.meter.Total()
	if err != nil || total < w.limit {
		return total, err
	}
	return w.meter.Used()
}

// pace is how long so much memory lasts at the least.
func pace(headroom int64) time.Duration {
	wait := time.Duration(float64(headroom) / growth * float64(time.Second))
	return min(max(wait, fastLook), slowLook)
}

// together shortens a wait so that it ends when the others' do that are about
// as long: to be woken costs more than to look.
func together(now time.Time, wait time.Duration) time.Duration {
	step := time.Millisecond
	for 4*step <= wait {
		step *= 2
	}
	if step == time.Millisecond {
		return wait
	}
	return now.Add(wait).Truncate(step).Sub(now)
}

// shed has the largest command killed.
func (w *memoryWatch) shed(used int64) (time.Duration, error) {
	ctx, cancel := context.WithTimeout(w.runtime.ctx, shedTimeout)
	defer cancel()
	killed, err := w.client.Shed(ctx)
	log := w.runtime.log.With("id", w.id, "used", mib(used), "limit", mib(w.limit))
	switch {
	case unsupported(err):
		w.old = true
		log.Error("out of memory, and the init of this sandbox is too old to help")
		return slowLook, nil
	case err != nil:
		if w.runtime.ctx.Err() == nil {
			log.Error("out of memory", "error", err)
		}
		return helpless, nil
	case !killed.Killed:
		if !w.alone {
			log.Warn("out of memory, and no command is left to kill: it is in files")
		}
		w.alone, w.least, w.again = true, used, time.Now().Add(helpless)
		return fastLook, nil
	}
	log.Warn("out of memory: the largest command was killed", "it had", mib(int64(killed.Memory)))
	return w.settle()
}

func unsupported(err error) bool {
	e, ok := errors.AsType[*wire.Error](err)
	return ok && e.Errno == syscall.ENOSYS
}

// settle waits for what has been killed to give its memory back, or for
// another command to take it.
func (w *memoryWatch) settle() (time.Duration, error) {
	least := int64(math.MaxInt64)
	end := time.NewTimer(shedSettle)
	defer end.Stop()
	again := time.NewTicker(fastLook)
	defer again.Stop()
	for {
		used, err := w.used()
		if err != nil || used < w.limit {
			return fastLook, err
		}
		if least = min(least, used); used > least+newcomer {
			return 0, nil
		}
		select {
		case <-end.C:
			return 0, nil
		case <-w.runtime.ctx.Done():
			return 0, nil
		case <-again.C:
		}
	}
}
