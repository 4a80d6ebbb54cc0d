package exec

import (
	_ "embed"
	"regexp"
)

// Languages returns the built-in languages. The caller may change what it
// gets, and pass a changed row in Config.Languages.
func Languages() []Language { return append([]Language(nil), builtin...) }

// builtin is the closed set that code interpreters of this kind advertise.
//
// What includes what is told by a pattern that errs on the side of building
// once more. Compilers optimise little, as most programs run once.
var builtin = []Language{
	{
		Name: "py", File: "main.py", Script: true,
		Run: []string{"python3", "{src}"},
		aid: &plots,
	},
	{
		Name: "js", File: "main.js", Script: true,
		Run: []string{"node", "{src}"},
	},
	{
		// Types, enums and namespaces are compiled away, and not checked.
		// What a program imports from beside itself is bundled; require is
		// there as well as import.
		Name: "ts", File: "main.ts", Script: true,
		Build: []string{
			"esbuild", "{src}", "--outfile={dir}/main.mjs", "--bundle", "--platform=node", "--packages=external",
			"--format=esm", "--log-level=error", "--sourcemap=inline",
			`--banner:js=import{createRequire as createRequire$}from"module";globalThis.require??=createRequire$(process.cwd()+"/");`,
		},
		Run: []string{"node", "--enable-source-maps", "{dir}/main.mjs"},
	},
	{
		Name: "bash", File: "main.sh", Script: true,
		Run: []string{"bash", "{src}"},
		aid: &plots, // for the Python in it
	},
	{
		Name: "r", File: "main.r", Script: true,
		Run: []string{"Rscript", "{src}"},
	},
	{
		Name: "php", File: "main.php", Script: true,
		Run: []string{"php", "-d", "display_errors=stderr", "-d", "log_errors=0", "{src}"},
	},
	{
		// Go has a cache of its own, which knows what includes what.
		Name: "go", File: "main.go",
		Build: []string{"go", "build", "-o", "{dir}/main", "main.go"},
		Run:   []string{"{dir}/main"},
	},
	{
		Name: "rs", File: "main.rs",
		Build:    []string{"rustc", "--edition=2021", "-Copt-level=1", "-o", "{dir}/main", "main.rs"},
		Run:      []string{"{dir}/main"},
		Includes: regexp.MustCompile(`\bmod\s+\w+\s*;|\binclude(_str|_bytes)?\s*!|#!?\[\s*path|\benv\s*!`),
	},
	{
		Name: "c", File: "main.c",
		Build:    []string{"gcc", "-O1", "-I{work}", "-o", "{dir}/main", "main.c", "-lm"},
		Run:      []string{"{dir}/main"},
		Includes: cIncludes,
	},
	{
		Name: "cpp", File: "main.cpp",
		Build:    []string{"g++", "-std=c++20", "-O1", "-I{work}", "-o", "{dir}/main", "main.cpp"},
		Run:      []string{"{dir}/main"},
		Includes: cIncludes,
	},
	{
		// The source launcher takes a class of any name, but runs the first
		// one in the file.
		Name: "java", File: "Main.java",
		Run: []string{
			"java", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-XX:-UsePerfData", "-Xshare:auto",
			"-cp", "{work}", "{src}",
		},
	},
	{
		Name: "d", File: "main.d",
		Build: []string{"gdc", "-O1", "-I{work}", "-o", "{dir}/main", "main.d"},
		Run:   []string{"{dir}/main"},
	},
	{
		Name: "f90", File: "main.f90",
		Build:    []string{"gfortran", "-O1", "-ffree-line-length-none", "-I{work}", "-J{dir}", "-o", "{dir}/main", "main.f90"},
		Run:      []string{"{dir}/main"},
		Includes: regexp.MustCompile(`(?im)^\s*#?\s*include\b|^\s*use\b`),
	},
}

// cIncludes finds what is not an include of the toolchain's own.
var cIncludes = regexp.MustCompile(`(?m)^\s*#\s*(include(_next)?\s*([^<\s]|<\.)|embed\b|include_next\b)|\b_Pragma\b|__has_include|\.incbin`)

//go:embed sitecustomize.py
var siteCustomize string

// plots is what users of matplotlib are used to: no display, and a picture in
// the working directory for each figure that is shown.
var plots = aid{
	wants:   regexp.MustCompile(`matplotlib|pyplot|pylab|seaborn|\bplt\b|\bplot\b`),
	name:    "py/sitecustomize.py",
	content: siteCustomize,
	env:     []string{"PYTHONPATH={aids}/py"},
}

// runEnv is added to the environment of every program, as one of any language
// may start python3.
var runEnv = []string{"MPLBACKEND=Agg"}
