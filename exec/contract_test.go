//go:build linux

package exec_test

import (
	"testing"

	"github.com/hanzoai/sandbox/exec"
	"github.com/hanzoai/sandbox/internal/runtimetest"
	"github.com/hanzoai/sandbox/internal/sandboxtest"
	"github.com/hanzoai/sandbox/sandbox"
)

// What holds over every driver, named by what the clients of code interpreters
// expect.
var contract = []struct {
	name string
	test func(t *testing.T, l lab)
}{
	{"reply-shape", replyShape},
	{"non-zero-exit", nonZeroExit},
	{"exit-code-only", exitCodeOnly},
	{"empty-output", emptyOutput},
	{"stdout-is-exact", stdoutIsExact},
	{"args", args},
	{"mnt-data-is-the-working-directory", workingDirectory},
	{"produced-file", producedFile},
	{"no-phantom-files", noPhantomFiles},
	{"changed-file", changedFile},
	{"touched-file", touchedFile},
	{"uploaded-file-read", uploadedFileRead},
	{"full-ids-pass-the-host-route", idsPassTheHostRoute},
	{"url-unsafe-file-name", urlUnsafeFileName},
	{"nested-output", nestedOutput},
	{"unicode-file-name", unicodeFileName},
	{"upload-unicode-name", uploadUnicodeName},
	{"upload-listed-and-downloaded", uploadListedAndDownloaded},
	{"upload-without-content-length", uploadOfUnknownLength},
	{"files-is-a-bare-array", filesOfAnEmptySession},
	{"session-continued-by-tool-node", continuedByFiles},
	{"session-continued-by-id", continuedByID},
	{"files-from-two-sessions", filesFromTwoSessions},
	{"file-carried-in-from-another-session", carriedIn},
	{"two-inputs-with-one-name", twoInputsWithOneName},
	{"full-input-placed-under-its-given-name", placedUnderItsName},
	{"missing-input-is-reported", missingInput},
	{"lost-name-is-invalid", invalidInputName},
	{"unchanged-input", unchangedInput},
	{"deleted-input", deletedInput},
	{"full-read-only-input", readOnlyInput},
	{"read-only-input-in-its-own-session", readOnlyInPlace},
	{"full-delete", fullDelete},
	{"download-unknown-file", downloadUnknownFile},
	{"upload-path-does-not-escape", uploadDoesNotEscape},
	{"download-traversal", downloadTraversal},
	{"links-are-not-followed", linksAreNotFollowed},
	{"hidden-folders", hiddenFolders},
	{"large-output", largeOutput},
	{"live-output", liveOutput},
	{"stdin", stdin},
	{"runaway-program-is-stopped", runaway},
	{"client-disconnect", clientGone},
	{"client-stops-reading", stopsReading},
	{"parallel-runs-are-apart", parallelRuns},
	{"parallel-runs-in-one-session-take-turns", takeTurns},
	{"parallel-uploads", parallelUploads},
	{"expired-session", expiredSession},
	{"session-ends-mid-run", sessionEndsMidRun},
	{"session-ends-before-the-program", sessionEndsBeforeRun},
	{"unknown-session", unknownSession},
	{"bad-snippets", badSnippets},
	{"toolchain-missing", toolchainMissing},
}

func runContract(t *testing.T, sandboxes sandboxtest.Sandboxes) {
	l := newLab(t, sandboxes, exec.Config{MaxOutput: 64 << 10})
	for _, c := range contract {
		t.Run(c.name, func(t *testing.T) { c.test(t, l) })
	}
}

func TestOverMemory(t *testing.T) {
	m := sandboxtest.NewMemory()
	t.Cleanup(func() { m.Close() })
	runContract(t, m)
}

func TestOverScope(t *testing.T) {
	rt := runtimetest.New(t, sandbox.Config{})
	runContract(t, rt.For(sandbox.Owner{Org: "hanzo", Actor: "ada"}))
}
