package recipe

import "slices"

// suite is Debian's release: package names and versions below are its.
const suite = "bookworm"

// goVersion is the Go toolchain of images that have one. Debian's own is of
// 2022.
const goVersion = "1.26.8"

var base = []string{"python3", "bash", "coreutils", "ca-certificates", "tzdata"}

var fonts = []string{"fontconfig", "fonts-dejavu-core", "fonts-liberation", "fonts-noto-color-emoji", "fonts-wqy-microhei"}

// node is the one binary of Node.js. It starts in a fifth of the time of
// Debian's, and runs TypeScript.
var node = NPM{
	Name: "node-linux-{arch}", Version: "26.10.0", File: "bin/node", To: "usr/local/bin/node",
	Integrity: map[string]string{
		"amd64": "sha512-OmAztarr1gK4PD+sNyoku4N5Q40d8eqMuLjNa/zRvxF33aCsVKVIQLs4V5HYPWSWWlMiTdkmbZE/6Phigma0hw==",
		"arm64": "sha512-idArV/cmqW9M9ODyGlbOIiyxFourDh1mJB0SdKCdMbSZjjef9CLEN3o1/eE4yf+B0+5BD+F74MpTTHiB3XXTBQ==",
	},
}

// esbuild turns TypeScript into JavaScript, all of the language, where node
// takes only what can be erased.
var esbuild = NPM{
	Name: "@esbuild/linux-{arch}", Version: "0.28.2", File: "bin/esbuild", To: "usr/local/bin/esbuild",
	Integrity: map[string]string{
		"amd64": "sha512-4xTZr1FUmSoQW4XIWmit3tzQrUTZM+N3P0XV8xROKYF50XfI7xeO90+1bZvNwxIufQ9hDQVRJH5YhgPVF8A/HQ==",
		"arm64": "sha512-pW4AC0P3it8c7do9MVM4p51FzHzdM/TZrerurgRcHJ2WTa1VQ1CIq18xncfpBJw4ojkiZZrKW2yIBWBP92j6Ug==",
	},
}

var npm = NPM{
	Name: "npm", Version: "12.2.2", To: "usr/local/lib/node_modules/npm",
	Integrity: map[string]string{"": "sha512-KglgbZyacf7jH+FHuNRqVuCzQi8VhI2a7J87Ix43FsPTuZoGWmIXXGdZtBUOA79vwL+IJREqURVzupA7PsQTcA=="},
	Links:     map[string]string{"npm": "bin/npm-cli.js", "npx": "bin/npx-cli.js"},
}

// pythonEnv lets a user who is not root install packages, below their home;
// Debian's Python refuses that by itself.
var pythonEnv = []string{"PIP_BREAK_SYSTEM_PACKAGES=1", "PIP_NO_INPUT=1", "PIP_ROOT_USER_ACTION=ignore", "MPLBACKEND=Agg", "MPLCONFIGDIR=/var/cache/matplotlib"}

// goEnv: see hook.sh for the cache.
var goEnv = []string{"GOTOOLCHAIN=local", "GOFLAGS=-mod=mod", "GOTELEMETRY=off"}

var recipes = []Recipe{
	{
		Name: "base", Suite: suite,
		Summary: "Debian with Python and a shell",
		Include: base,
		Env:     slices.Concat([]string{"PATH=/usr/local/bin:/usr/bin:/bin", "LANG=C.UTF-8"}, pythonEnv[:3]),
	},
	{
		Name: "exec", Suite: suite,
		Summary: "thirteen languages and Python's data libraries, for code interpreters",
		Include: slices.Concat(base, fonts, []string{
			"python3-pip", "python3-venv",
			"python3-numpy", "python3-pandas", "python3-matplotlib", "python3-scipy", "python3-sympy", "python3-pil",
			"python3-openpyxl", "python3-xlsxwriter", "python3-xlrd", "python3-requests", "python3-sklearn",
			"python3-seaborn", "python3-statsmodels", "python3-networkx", "python3-lxml", "python3-bs4",
			"python3-docx", "python3-reportlab", "python3-pypdf", "python3-pdfminer", "python3-yaml",
			"python3-tabulate", "python3-jinja2", "python3-plotly",
			"r-base-core", "r-cran-ggplot2", "r-cran-dplyr", "r-cran-jsonlite",
			"php-cli", "php-mbstring", "php-xml",
			"gcc", "g++", "gfortran", "gdc", "make", "libc6-dev",
			"rustc-web", // 1.96; the plain one is of 2022, and excludes it
			"openjdk-17-jdk-headless",
			"file", "jq", "unzip", "zip", "git", "procps", "less",
		}),
		NPM: []NPM{node, esbuild},
		Go:  goVersion,
		Env: slices.Concat([]string{"PATH=/usr/local/bin:/usr/bin:/bin:/usr/local/go/bin", "LANG=C.UTF-8", "NODE_PATH=/usr/local/lib/node_modules"}, pythonEnv, goEnv),
	},
	{
		Name: "dev", Suite: suite,
		Summary: "compilers, git and the tools of daily work",
		Include: slices.Concat(base, []string{
			"build-essential", "cmake", "ninja-build", "pkg-config", "gdb",
			"git", "ripgrep", "fd-find", "jq", "curl", "openssh-client", "rsync",
			"python3-pip", "python3-venv", "python3-dev",
			"file", "less", "nano", "vim-tiny", "tmux", "tree", "unzip", "zip", "xz-utils", "procps", "lsof", "strace",
		}),
		NPM: []NPM{node, esbuild, npm},
		Go:  goVersion,
		Env: slices.Concat([]string{"PATH=/usr/local/bin:/usr/bin:/bin:/usr/local/go/bin", "LANG=C.UTF-8", "NODE_PATH=/usr/local/lib/node_modules"}, pythonEnv[:3], goEnv),
	},
	{
		Name: "desktop", Suite: suite,
		Summary: "an X desktop over VNC with a browser",
		Include: slices.Concat(base, fonts, []string{
			"tigervnc-standalone-server", "openbox", "tint2", "xterm",
			"chromium", // firefox aborts in gVisor, for want of ARCH_SET_GS
			"xdotool", "scrot", "xclip", "x11-utils", "x11-xserver-utils", "dbus-x11", "procps",
		}),
		Env: slices.Concat([]string{"PATH=/usr/local/bin:/usr/bin:/bin", "LANG=C.UTF-8"}, pythonEnv[:3]),
	},
}
