package exec

import (
	"crypto/sha256"
	"encoding/base32"
	"regexp"
	"slices"
	"strings"
)

// A Language is how programs of one are built and run. It is data: to add one
// is to add a row to Config.Languages.
//
// In Build, Run and Env these stand for absolute paths:
//
//	{src}   the file with the program
//	{dir}   a folder for what the build makes
//	{work}  the working directory, in which the program runs
type Language struct {
	// Name is what a Snippet says, in lower case; upper case means the same.
	Name string

	// File is the usual name of a file with a program, as main.py.
	File string

	// Script puts the file into the working directory, under a hidden name
	// that begins with the usual one's, because such programs look for others
	// beside themselves. Other programs get the usual name, in {dir}.
	Script bool

	// Build is a command that is run before the program, in the folder of
	// {src}, if there is one. The program's arguments are not passed to it. What it prints is
	// reported only if it fails.
	Build []string

	// Run is the program's command, in the working directory. The program's
	// arguments follow it.
	Run []string

	// Env is added to the environment of both, as KEY=value.
	Env []string

	// Needs are the programs that the image must have; nil is the first
	// words of Build and Run, if they are no paths of the session.
	Needs []string

	// Includes finds in a program what makes others part of it. One in which
	// it finds nothing is not built again for as long as the session last
	// built no other of the language. Nil finds something everywhere.
	Includes *regexp.Regexp

	// Image is what is leased for a session that starts with the language;
	// "" is Config.Spec's.
	Image string

	aid *aid
}

// An aid is a file that programs of a kind get on their way.
type aid struct {
	wants   *regexp.Regexp // in the program
	name    string         // below the folder of aids
	content string
	env     []string // {aids} is the folder
}

// languageTable is the built-in languages with more, by name, and their order.
func languageTable(more []Language) (map[string]Language, []string, error) {
	table := map[string]Language{}
	var names []string
	for _, l := range slices.Concat(builtin, more) {
		l.Name = strings.ToLower(l.Name)
		if err := l.complete(); err != nil {
			return nil, nil, err
		}
		if _, ok := table[l.Name]; !ok {
			names = append(names, l.Name)
		}
		table[l.Name] = l
	}
	return table, names, nil
}

func (l *Language) complete() error {
	switch {
	case l.Name == "" || strings.ContainsAny(l.Name, "/\x00 "):
		return invalid("a language's name is a word, not %.40q", l.Name)
	case l.File == "" || strings.ContainsAny(l.File, "/\x00") || strings.HasPrefix(l.File, "."):
		return invalid("language %.40s: File is the usual name of a program, as main.py, not %.40q", l.Name, l.File)
	case len(l.Run) == 0:
		return invalid("language %.40s: Run is empty", l.Name)
	}
	if l.Needs != nil {
		return nil
	}
	for _, argv := range [][]string{l.Build, l.Run} {
		if len(argv) > 0 && !strings.HasPrefix(argv[0], "{") && !slices.Contains(l.Needs, argv[0]) {
			l.Needs = append(l.Needs, argv[0])
		}
	}
	return nil
}

func (it *Interpreter) language(name string) (*Language, error) {
	l, ok := it.languages[strings.ToLower(name)]
	if !ok {
		return nil, &wrapped{
			text: "unknown language " + quote(name) + ": have " + strings.Join(it.names, ", "),
			kind: errLanguage,
		}
	}
	return &l, nil
}

// key names a program of the language: equal keys mean equal programs, built
// alike.
func (l *Language) key(code string) string {
	h := sha256.New()
	for _, s := range slices.Concat([]string{l.Name, l.File}, l.Build, l.Env, []string{"", code}) {
		h.Write([]byte(s))
		h.Write([]byte{0})
	}
	return strings.ToLower(base32.StdEncoding.EncodeToString(h.Sum(nil))[:keyLen])
}

const keyLen = 16

// A placement is where things of one run are, as absolute paths.
type placement struct{ work, src, dir, aids string }

// fill puts paths into a command or an environment.
func (p *placement) fill(words []string) []string {
	r := strings.NewReplacer("{src}", p.src, "{dir}", p.dir, "{work}", p.work, "{aids}", p.aids)
	filled := make([]string, len(words))
	for i, w := range words {
		filled[i] = r.Replace(w)
	}
	return filled
}
