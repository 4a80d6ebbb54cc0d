//go:build linux

package exec_test

import (
	"strings"
	"testing"

	"github.com/matryer/is"

	"github.com/hanzoai/sandbox/exec"
	"github.com/hanzoai/sandbox/internal/imagetest"
	"github.com/hanzoai/sandbox/internal/runtimetest"
	"github.com/hanzoai/sandbox/sandbox"
)

// TestPlots draws with the real matplotlib, and with R, of an image that has
// every language.
func TestPlots(t *testing.T) {
	rt := runtimetest.New(t, sandbox.Config{Images: imagetest.Built(t, "exec")})
	spec := sandbox.Spec{Image: "exec"}
	l := newLab(t, rt, exec.Config{Spec: spec})
	sb, err := rt.Lease(bounded(t), spec)
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range []struct{ language, code, makes, begins string }{
		{"py", "import matplotlib.pyplot as plt\nplt.plot([1, 2])\nplt.title('é Ω')\nplt.show()", "plot_1.png", "\x89PNG"},
		{"py", "import matplotlib\nmatplotlib.use('Agg')\nimport matplotlib.pyplot as plt\nfig, ax = plt.subplots()\nax.plot([2, 1])\nfig.show()", "plot_2.png", "\x89PNG"},
		{"py", "import pandas as pd\nimport matplotlib.pyplot as plt\npd.Series([1, 3, 2]).plot()\nplt.savefig('series.svg')", "series.svg", "<?xml"},
		{"bash", "python3 - <<'END'\nimport matplotlib.pyplot as plt\nplt.plot([1])\nplt.show()\nEND", "plot_3.png", "\x89PNG"},
		{"r", "png('r.png')\nplot(1:3)\ninvisible(dev.off())", "r.png", "\x89PNG"},
	} {
		is := is.New(t)
		res := l.run(t, exec.Snippet{Session: sb.ID(), Language: s.language, Code: s.code})
		plain(t, res, "")
		is.Equal(paths(res), s.makes)
		is.True(strings.HasPrefix(l.read(t, res.Session, s.makes), s.begins))
	}
}
