// Interpreter runs two snippets in one session: the first writes a table, the
// second draws it. The picture is downloaded to the folder named as argument,
// or to a temporary one.
//
//	CGO_ENABLED=0 go run ./examples/interpreter
package main

import (
	"context"
	"fmt"
	"io"
	"log"
	"os"
	"path/filepath"

	"github.com/hanzoai/sandbox/exec"
	"github.com/hanzoai/sandbox/sandbox"
	_ "github.com/hanzoai/sandbox/sandbox/runsc"
)

const table = `
import csv, math, sys
points = int(sys.argv[1])
with open("wave.csv", "w", newline="") as f:
    for i in range(points):
        csv.writer(f).writerow([i, round(math.sin(i / 5), 4)])
print(points, "points")
`

// picture draws with matplotlib where the image has it, and by hand where not.
const picture = `
import csv
points = [(float(x), float(y)) for x, y in csv.reader(open("wave.csv"))]
try:
    import matplotlib.pyplot as plt
    plt.plot([x for x, _ in points], [y for _, y in points])
    plt.show()
except ImportError:
    line = " ".join("%g,%g" % (10 + 5 * x, 60 - 50 * y) for x, y in points)
    with open("plot_1.svg", "w") as f:
        f.write('<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d 120">' % (20 + 5 * len(points)))
        f.write('<polyline points="%s" fill="none" stroke="teal"/></svg>\n' % line)
print("drawn from", len(points), "points")
`

func main() {
	if err := run(context.Background()); err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context) error {
	rt, err := sandbox.New(sandbox.Config{})
	if err != nil {
		return err
	}
	defer rt.Close()
	it, err := exec.New(rt, exec.Config{})
	if err != nil {
		return err
	}

	first, err := it.Run(ctx, exec.Snippet{Language: "py", Code: table, Args: []string{"100"}})
	if err != nil {
		return err
	}
	report(first)

	// The second run goes where the file is that it is given.
	second, err := it.Run(ctx, exec.Snippet{
		Language: "py", Code: picture,
		Inputs: []exec.Input{{Session: first.Session, File: first.Files[0].ID}},
	})
	if err != nil {
		return err
	}
	report(second)
	fmt.Println("same session:", second.Session == first.Session)

	for _, f := range second.Files {
		if err := download(ctx, it, f); err != nil {
			return err
		}
	}
	return nil
}

func report(res *exec.Result) {
	fmt.Print(res.Stdout, res.Stderr)
	for _, f := range res.Files {
		fmt.Println("made", f.Path)
	}
}

func download(ctx context.Context, it *exec.Interpreter, f exec.File) error {
	dir := os.TempDir()
	if len(os.Args) > 1 {
		dir = os.Args[1]
	}
	src, _, err := it.Open(ctx, f.Session, f.ID)
	if err != nil {
		return err
	}
	defer src.Close()
	// What programs wrote is not to choose where it goes.
	dst, err := os.CreateTemp(dir, "*-"+filepath.Base(f.Path))
	if err != nil {
		return err
	}
	n, err := io.Copy(dst, io.LimitReader(src, 10<<20))
	if err != nil {
		dst.Close()
		return err
	}
	fmt.Println("downloaded", n == f.Size, filepath.Base(f.Path))
	return dst.Close()
}
