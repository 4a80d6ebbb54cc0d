package image_test

import (
	osexec "os/exec"
	"strings"
	"testing"

	"github.com/matryer/is"
)

// Who leases sandboxes on the host's image does not carry what fetches others.
func TestImporters(t *testing.T) {
	is := is.New(t)
	out, err := osexec.CommandContext(t.Context(), "go", "list", "-deps", "github.com/hanzoai/sandbox/sandbox").Output()
	is.NoErr(err)
	is.True(strings.Contains(string(out), "github.com/hanzoai/sandbox/internal/hostview"))
	is.True(!strings.Contains(string(out), "containerregistry"))
	is.True(!strings.Contains(string(out), "sandbox/image"))
}
