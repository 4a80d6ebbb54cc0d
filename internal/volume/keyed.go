package volume

import (
	"context"
	"sync"
)

// keyed is a lock for each key. Its zero value is ready.
type keyed struct {
	mu    sync.Mutex
	locks map[string]*keyLock
}

type keyLock struct {
	held  chan struct{} // has one element while it is
	users int           // who hold it or wait for it
}

// hold waits for the lock of a key, or for the end of ctx.
func (k *keyed) hold(ctx context.Context, key string) (release func(), err error) {
	k.mu.Lock()
	l := k.locks[key]
	if l == nil {
		if k.locks == nil {
			k.locks = map[string]*keyLock{}
		}
		l = &keyLock{held: make(chan struct{}, 1)}
		k.locks[key] = l
	}
	l.users++
	k.mu.Unlock()
	if ctx.Err() == nil {
		select {
		case l.held <- struct{}{}:
			return func() { <-l.held; k.leave(key, l) }, nil
		case <-ctx.Done():
		}
	}
	k.leave(key, l)
	return nil, context.Cause(ctx)
}

func (k *keyed) leave(key string, l *keyLock) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if l.users--; l.users == 0 {
		delete(k.locks, key)
	}
}
