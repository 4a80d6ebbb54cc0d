package sandbox

import "testing"

// WithDisk has sandboxes of the default class, as long as a test runs, leased
// with so much disk.
func WithDisk(t testing.TB, size int64) {
	was := classes[ClassExec]
	now := was
	now.disk = size
	classes[ClassExec] = now
	t.Cleanup(func() { classes[ClassExec] = was })
}
