package image_test

import (
	"io/fs"
	"strings"
	"testing"
	"time"

	"github.com/matryer/is"

	"github.com/hanzoai/sandbox/internal/imagetest"
	"github.com/hanzoai/sandbox/internal/runtimetest"
	"github.com/hanzoai/sandbox/sandbox"
)

// A language's two programs: one greets, and one writes the sum of the numbers
// in a file to another.
type language struct {
	file       string
	run        string // a line of shell
	hello, sum string
}

var languages = map[string]language{
	"python": {
		"main.py", "python3 main.py",
		"print('hello')",
		"n = sum(int(l) for l in open('in.txt'))\nopen('out.txt', 'w').write(str(n))",
	},
	"javascript": {
		"main.js", "node main.js",
		"console.log('hello')",
		"const fs = require('fs')\nconst n = fs.readFileSync('in.txt', 'utf8').trim().split('\\n').map(Number).reduce((a, b) => a + b)\nfs.writeFileSync('out.txt', String(n))",
	},
	"typescript": {
		"main.ts", "esbuild main.ts --outfile=main.mjs --format=esm --log-level=error && node main.mjs",
		"enum Greeting { Hello = 'hello' }\nclass A { constructor(public g: Greeting) {} }\nconsole.log(new A(Greeting.Hello).g)",
		"import * as fs from 'fs'\nconst n: number = fs.readFileSync('in.txt', 'utf8').trim().split('\\n').map(Number).reduce((a: number, b: number) => a + b)\nfs.writeFileSync('out.txt', String(n))",
	},
	"bash": {
		"main.sh", "bash main.sh",
		"echo hello",
		"n=0; while read -r x; do n=$((n + x)); done < in.txt; echo \"$n\" > out.txt",
	},
	"r": {
		"main.R", "Rscript main.R",
		"cat('hello\\n')",
		"library(jsonlite)\nn <- sum(as.integer(readLines('in.txt')))\nwriteLines(as.character(fromJSON(toJSON(n))), 'out.txt')",
	},
	"php": {
		"main.php", "php main.php",
		"<?php echo mb_strtolower('HELLO'), \"\\n\";",
		"<?php file_put_contents('out.txt', array_sum(array_map('intval', file('in.txt'))));",
	},
	"go": {
		"main.go", "go run main.go",
		"package main\nimport \"fmt\"\nfunc main() { fmt.Println(\"hello\") }",
		"package main\nimport (\"fmt\"; \"os\"; \"slices\"; \"strconv\"; \"strings\")\nfunc main() {\n\tb, err := os.ReadFile(\"in.txt\")\n\tif err != nil { panic(err) }\n\tn := 0\n\tfor l := range slices.Values(strings.Fields(string(b))) { i, _ := strconv.Atoi(l); n += i }\n\tos.WriteFile(\"out.txt\", []byte(fmt.Sprint(n)), 0o644)\n}",
	},
	"rust": {
		"main.rs", "rustc -o main main.rs && ./main",
		"fn main() { println!(\"hello\"); }",
		"use std::fs;\nfn main() {\n let n: i64 = fs::read_to_string(\"in.txt\").unwrap().lines().map(|l| l.parse::<i64>().unwrap()).sum();\n fs::write(\"out.txt\", n.to_string()).unwrap();\n}",
	},
	"c": {
		"main.c", "gcc -o main main.c && ./main",
		"#include <stdio.h>\nint main(void) { puts(\"hello\"); return 0; }",
		"#include <stdio.h>\nint main(void) { FILE *f = fopen(\"in.txt\", \"r\"); int n = 0, x; while (fscanf(f, \"%d\", &x) == 1) n += x; f = fopen(\"out.txt\", \"w\"); fprintf(f, \"%d\", n); return fclose(f); }",
	},
	"c++": {
		"main.cpp", "g++ -std=c++20 -o main main.cpp && ./main",
		"#include <iostream>\nint main() { std::cout << \"hello\\n\"; }",
		"#include <fstream>\n#include <numeric>\n#include <iterator>\nint main() { std::ifstream f(\"in.txt\"); int n = std::accumulate(std::istream_iterator<int>(f), {}, 0); std::ofstream(\"out.txt\") << n; }",
	},
	"java": {
		"Main.java", "java -XX:+UseSerialGC -XX:TieredStopAtLevel=1 Main.java",
		"public class Main { public static void main(String[] a) { System.out.println(\"hello\"); } }",
		"import java.nio.file.*;\npublic class Main { public static void main(String[] a) throws Exception { long n = Files.readAllLines(Path.of(\"in.txt\")).stream().mapToLong(Long::parseLong).sum(); Files.writeString(Path.of(\"out.txt\"), Long.toString(n)); } }",
	},
	"d": {
		"main.d", "gdc -o main main.d && ./main",
		"import std.stdio;\nvoid main() { writeln(\"hello\"); }",
		"import std.stdio, std.conv, std.algorithm, std.array;\nvoid main() { auto n = File(\"in.txt\").byLine.map!(l => l.to!long).sum; File(\"out.txt\", \"w\").write(n); }",
	},
	"fortran": {
		"main.f90", "gfortran -o main main.f90 && ./main",
		"program main\nprint '(a)', 'hello'\nend program",
		"program main\ninteger :: n, x, s\nn = 0\nopen(1, file='in.txt')\ndo\nread(1, *, iostat=s) x\nif (s /= 0) exit\nn = n + x\nend do\nopen(2, file='out.txt')\nwrite(2, '(i0)') n\nend program",
	},
}

// The image exec has thirteen languages, which work for a user without rights
// in a sandbox.
func TestLanguages(t *testing.T) {
	is := is.New(t)
	sb := imagetest.Lease(t, sandbox.Spec{Image: "exec", TTL: time.Hour})
	is.Equal(len(languages), 13)
	is.Equal(sh(t, sb, "id -un; id -u; touch /usr/x 2>/dev/null || echo read-only"), "sandbox\n1000\nread-only")
	for name, l := range languages {
		t.Run(name, func(t *testing.T) {
			is := is.New(t)
			dir := "/mnt/data/" + strings.ReplaceAll(name, "+", "p")
			write(t, sb, dir+"/hello/"+l.file, l.hello)
			start := time.Now()
			is.Equal(in(t, sb, dir+"/hello", l.run), "hello\n")
			first := time.Since(start)
			write(t, sb, dir+"/sum/"+l.file, l.sum)
			write(t, sb, dir+"/sum/in.txt", "3\n1\n38\n")
			start = time.Now()
			in(t, sb, dir+"/sum", l.run)
			b, err := fs.ReadFile(sb.FS(t.Context()), dir[len("/mnt/data/"):]+"/sum/out.txt")
			is.NoErr(err)
			is.Equal(strings.TrimSpace(string(b)), "42")
			t.Logf("hello %v, files %v", first.Round(time.Millisecond), time.Since(start).Round(time.Millisecond))
		})
	}
}

// Go's compiled library is in the image, stays there, and others can be added.
func TestGoCache(t *testing.T) {
	is := is.New(t)
	sb := imagetest.Lease(t, sandbox.Spec{Image: "exec", TTL: time.Hour})
	write(t, sb, "/mnt/data/main.go", languages["go"].hello)
	for range 2 {
		start := time.Now()
		is.Equal(in(t, sb, "/mnt/data", "go run main.go"), "hello\n")
		took := time.Since(start)
		t.Log(took)
		is.True(took < 20*time.Second) // compiling the library takes half a minute and more
	}
}

// The libraries that data work takes are there, and draw.
func TestDataLibraries(t *testing.T) {
	is := is.New(t)
	sb := imagetest.Lease(t, sandbox.Spec{Image: "exec", TTL: time.Hour})
	write(t, sb, "/mnt/data/main.py", `
import numpy, pandas, matplotlib.pyplot as plt, scipy.stats, sympy, PIL.Image, openpyxl, sklearn.linear_model
import seaborn, statsmodels.api, networkx, requests, lxml.etree, docx, reportlab, plotly.express, bs4, yaml
df = pandas.DataFrame({'x': range(10)})
df.to_excel('t.xlsx')
assert pandas.read_excel('t.xlsx')['x'].sum() == 45
plt.plot(df['x']); plt.title('Ωé'); plt.savefig('p.png')
w, h = PIL.Image.open('p.png').size
print(w > 100 and h > 100)
`)
	is.Equal(in(t, sb, "/mnt/data", "python3 -W error::UserWarning main.py 2>err || cat err"), "True\n")
	write(t, sb, "/mnt/data/pkg/setup.py", "from setuptools import setup\nsetup(name='own', version='1', py_modules=['own'])\n")
	write(t, sb, "/mnt/data/pkg/own.py", "x = 7\n")
	is.Equal(in(t, sb, "/mnt/data", "pip install -q --user --no-index --no-build-isolation ./pkg 2>err >&2 && cd / && python3 -c 'import own; print(own.x)' || cat err"), "7\n")
}

func write(t testing.TB, sb *sandbox.Sandbox, name, text string) {
	t.Helper()
	dir := name[:strings.LastIndex(name, "/")]
	if _, err := sb.Command("mkdir", "-p", dir).Output(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := sb.WriteFile(t.Context(), name, strings.NewReader(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

// in runs a line of shell in a folder.
func in(t testing.TB, sb *sandbox.Sandbox, dir, line string) string {
	t.Helper()
	cmd := sb.Command("bash", "-c", line)
	cmd.Dir = dir
	out, err := cmd.Output(runtimetest.Context(t, 3*time.Minute))
	if err != nil {
		t.Fatalf("%s: %v\n%s", line, err, out)
	}
	return string(out)
}
