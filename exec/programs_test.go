//go:build linux

package exec_test

// The programs of a language that the matrix runs.
type programs struct {
	args   string // prints its arguments, a line each
	stdin  string // prints what it reads
	fail   string // prints "bad" on standard error and exits with 3
	broken string // does not compile, or not even run
	out    string // writes "made" to out.txt
	in     string // prints in.txt
	sleep  string // prints "started" and sleeps for long
}

var matrix = map[string]programs{
	"py": {
		args:   "import sys\nfor a in sys.argv[1:]: print(a)",
		stdin:  "import sys\nsys.stdout.write(sys.stdin.read())",
		fail:   "import sys\nprint('bad', file=sys.stderr)\nsys.exit(3)",
		broken: "def f(:\n",
		out:    "open('out.txt', 'w').write('made')",
		in:     "print(open('in.txt').read(), end='')",
		sleep:  "import time\nprint('started', flush=True)\ntime.sleep(100)",
	},
	"js": {
		args:   "for (const a of process.argv.slice(2)) console.log(a)",
		stdin:  "process.stdout.write(require('fs').readFileSync(0))",
		fail:   "console.error('bad'); process.exit(3)",
		broken: "function (",
		out:    "require('fs').writeFileSync('out.txt', 'made')",
		in:     "process.stdout.write(require('fs').readFileSync('in.txt', 'utf8'))",
		sleep:  "console.log('started'); setTimeout(() => {}, 100000)",
	},
	"ts": {
		args:   "enum E { First = 2 }\nfor (const a of process.argv.slice(E.First) as string[]) console.log(a)",
		stdin:  "import * as fs from 'fs'\nprocess.stdout.write(fs.readFileSync(0) as Buffer)",
		fail:   "namespace N { export const code: number = 3 }\nconsole.error('bad'); process.exit(N.code)",
		broken: "const x: = 1",
		out:    "const fs = require('fs')\nfs.writeFileSync('out.txt', 'made')",
		in:     "class R { constructor(public readonly name: string) {} }\nconst { readFile } = await import('fs/promises')\nprocess.stdout.write(await readFile(new R('in.txt').name, 'utf8'))",
		sleep:  "console.log('started'); setTimeout(() => {}, 100000 as number)",
	},
	"bash": {
		args:   `for a in "$@"; do printf '%s\n' "$a"; done`,
		stdin:  "cat",
		fail:   "echo bad >&2; exit 3",
		broken: "if true; then",
		out:    "printf made > out.txt",
		in:     "a=([0]=in.txt); cat \"${a[0]}\"", // not any sh
		sleep:  "echo started; sleep 100",
	},
	"r": {
		args:   "writeLines(commandArgs(trailingOnly = TRUE))",
		stdin:  "writeLines(readLines('stdin'))",
		fail:   "message('bad'); quit(status = 3)",
		broken: "f <- function( {",
		out:    "cat('made', file = 'out.txt')",
		in:     "writeLines(readLines('in.txt'))",
		sleep:  "cat('started\\n'); Sys.sleep(100)",
	},
	"php": {
		args:   `<?php foreach (array_slice($argv, 1) as $a) echo $a, "\n";`,
		stdin:  `<?php echo stream_get_contents(STDIN);`,
		fail:   `<?php fwrite(STDERR, "bad\n"); exit(3);`,
		broken: `<?php function (`,
		out:    `<?php file_put_contents('out.txt', 'made');`,
		in:     `<?php echo file_get_contents('in.txt');`,
		sleep:  `<?php echo "started\n"; sleep(100);`,
	},
	"go": {
		args:   "package main\nimport (\"fmt\"; \"os\")\nfunc main() { for _, a := range os.Args[1:] { fmt.Println(a) } }",
		stdin:  "package main\nimport (\"io\"; \"os\")\nfunc main() { io.Copy(os.Stdout, os.Stdin) }",
		fail:   "package main\nimport (\"fmt\"; \"os\")\nfunc main() { fmt.Fprintln(os.Stderr, \"bad\"); os.Exit(3) }",
		broken: "package main\nfunc main() { undefined() }",
		out:    "package main\nimport \"os\"\nfunc main() { os.WriteFile(\"out.txt\", []byte(\"made\"), 0o644) }",
		in:     "package main\nimport \"os\"\nfunc main() { b, _ := os.ReadFile(\"in.txt\"); os.Stdout.Write(b) }",
		sleep:  "package main\nimport (\"fmt\"; \"time\")\nfunc main() { fmt.Println(\"started\"); time.Sleep(100 * time.Second) }",
	},
	"rs": {
		args:   "fn main() { for a in std::env::args().skip(1) { println!(\"{}\", a); } }",
		stdin:  "fn main() { std::io::copy(&mut std::io::stdin(), &mut std::io::stdout()).unwrap(); }",
		fail:   "fn main() { eprintln!(\"bad\"); std::process::exit(3); }",
		broken: "fn main() { undefined(); }",
		out:    "fn main() { std::fs::write(\"out.txt\", \"made\").unwrap(); }",
		in:     "fn main() { print!(\"{}\", std::fs::read_to_string(\"in.txt\").unwrap()); }",
		sleep:  "fn main() { println!(\"started\"); std::thread::sleep(std::time::Duration::from_secs(100)); }",
	},
	"c": {
		args:   "#include <stdio.h>\nint main(int n, char **a) { for (int i = 1; i < n; i++) puts(a[i]); return 0; }",
		stdin:  "#include <stdio.h>\nint main(void) { int c; while ((c = getchar()) != EOF) putchar(c); return 0; }",
		fail:   "#include <stdio.h>\nint main(void) { fputs(\"bad\\n\", stderr); return 3; }",
		broken: "int main(void) { undefined }",
		out:    "#include <stdio.h>\nint main(void) { FILE *f = fopen(\"out.txt\", \"w\"); fputs(\"made\", f); return fclose(f); }",
		in:     "#include <stdio.h>\nint main(void) { FILE *f = fopen(\"in.txt\", \"r\"); int c; while ((c = getc(f)) != EOF) putchar(c); return 0; }",
		sleep:  "#include <stdio.h>\n#include <unistd.h>\nint main(void) { puts(\"started\"); fflush(stdout); sleep(100); return 0; }",
	},
	"cpp": {
		args:   "#include <iostream>\nint main(int n, char **a) { for (int i = 1; i < n; i++) std::cout << a[i] << '\\n'; }",
		stdin:  "#include <iostream>\nint main() { std::cout << std::cin.rdbuf(); }",
		fail:   "#include <iostream>\nint main() { std::cerr << \"bad\\n\"; return 3; }",
		broken: "int main() { undefined }",
		out:    "#include <fstream>\nint main() { std::ofstream(\"out.txt\") << \"made\"; }",
		in:     "#include <fstream>\n#include <iostream>\nint main() { std::cout << std::ifstream(\"in.txt\").rdbuf(); }",
		sleep:  "#include <iostream>\n#include <unistd.h>\nint main() { std::cout << \"started\" << std::endl; sleep(100); }",
	},
	"java": {
		args:   "public class Args { public static void main(String[] args) { for (String a : args) System.out.println(a); } }",
		stdin:  "public class Main { public static void main(String[] a) throws Exception { System.in.transferTo(System.out); System.out.flush(); } }",
		fail:   "public class Main { public static void main(String[] a) { System.err.println(\"bad\"); System.exit(3); } }",
		broken: "public class Main { public static void main(String[] a) { undefined(); } }",
		out:    "import java.nio.file.*;\npublic class Main { public static void main(String[] a) throws Exception { Files.writeString(Path.of(\"out.txt\"), \"made\"); } }",
		in:     "import java.nio.file.*;\npublic class Main { public static void main(String[] a) throws Exception { System.out.print(Files.readString(Path.of(\"in.txt\"))); } }",
		sleep:  "public class Main { public static void main(String[] a) throws Exception { System.out.println(\"started\"); Thread.sleep(100000); } }",
	},
	"d": {
		args:   "import std.stdio; void main(string[] args) { foreach (a; args[1 .. $]) writeln(a); }",
		stdin:  "import std.stdio; void main() { foreach (chunk; stdin.byChunk(4096)) stdout.rawWrite(chunk); }",
		fail:   "import std.stdio; int main() { stderr.writeln(\"bad\"); return 3; }",
		broken: "void main() { undefined(); }",
		out:    "import std.file; void main() { write(\"out.txt\", \"made\"); }",
		in:     "import std.file, std.stdio; void main() { std.stdio.write(readText(\"in.txt\")); }",
		sleep:  "import core.thread, std.stdio; void main() { writeln(\"started\"); stdout.flush(); Thread.sleep(100.seconds); }",
	},
	"f90": {
		args:   "program p\ncharacter(len=100) :: a\ninteger :: i\ndo i = 1, command_argument_count()\ncall get_command_argument(i, a)\nwrite(*, '(A)') trim(a)\nend do\nend program",
		stdin:  "program p\ncharacter(len=100) :: a\ninteger :: s\ndo\nread(*, '(A)', iostat=s) a\nif (s /= 0) exit\nwrite(*, '(A)') trim(a)\nend do\nend program",
		fail:   "program p\nuse iso_fortran_env\nwrite(error_unit, '(A)') 'bad'\ncall exit(3)\nend program",
		broken: "program p\nundefined\nend program",
		out:    "program p\nopen(unit=9, file='out.txt', access='stream')\nwrite(9) 'made'\nclose(9)\nend program",
		in:     "program p\ncharacter(len=100) :: a\nopen(unit=9, file='in.txt')\nread(9, '(A)') a\nwrite(*, '(A)') trim(a)\nend program",
		sleep:  "program p\nwrite(*, '(A)') 'started'\nflush(6)\ncall sleep(100)\nend program",
	},
}
