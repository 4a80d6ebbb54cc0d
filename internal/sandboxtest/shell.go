package sandboxtest

import (
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"syscall"
)

// A shell runs a script as Memory describes it. It reads on only when what it
// has read has run, so that a word can depend on it.
type shell struct {
	p      *Proc
	src    string // what is still to be read
	params []string
	code   int
	exited bool
}

// A command is one of a script, ready to run.
type command struct {
	args           []string
	stdout, stderr io.Writer
	background     bool
}

// blanks separate words, ends commands.
const (
	blanks = " \t\r"
	ends   = "\n;&"
)

func (s *shell) run() int {
	for s.src != "" && !s.exited && s.p.ctx.Err() == nil {
		cmd, err := s.next()
		if err != nil {
			fmt.Fprintf(s.p.Stderr, "sh: %v\n", err)
			return 2
		}
		if len(cmd.args) > 0 {
			s.code = s.do(cmd)
		}
	}
	return s.code
}

// next reads a command with the separator after it.
func (s *shell) next() (*command, error) {
	cmd := &command{stdout: s.p.Stdout, stderr: s.p.Stderr}
	for {
		s.src = strings.TrimLeft(s.src, blanks)
		if s.src == "" {
			return cmd, nil
		}
		if i := strings.IndexByte(ends, s.src[0]); i >= 0 {
			cmd.background = s.src[0] == '&'
			s.src = s.src[1:]
			return cmd, nil
		}
		if s.src[0] == '#' {
			_, rest, _ := strings.Cut(s.src, "\n")
			s.src = "\n" + rest
			continue
		}
		if found, err := s.redirect(cmd); found || err != nil {
			if err != nil {
				return nil, err
			}
			continue
		}
		word, err := s.word()
		if err != nil {
			return nil, err
		}
		cmd.args = append(cmd.args, word)
	}
}

// redirect reads a redirection, if one comes next, and makes it.
func (s *shell) redirect(cmd *command) (found bool, err error) {
	if rest, ok := strings.CutPrefix(s.src, ">&2"); ok {
		s.src, cmd.stdout = rest, cmd.stderr
		return true, nil
	}
	if rest, ok := strings.CutPrefix(s.src, "2>&1"); ok {
		s.src, cmd.stderr = rest, cmd.stdout
		return true, nil
	}
	stream := &cmd.stdout
	rest, ok := strings.CutPrefix(s.src, ">")
	if !ok {
		stream = &cmd.stderr
		if rest, ok = strings.CutPrefix(s.src, "2>"); !ok {
			return false, nil
		}
	}
	s.src = strings.TrimLeft(rest, blanks)
	name, err := s.word()
	if err != nil {
		return true, err
	}
	*stream, err = s.p.create(name, 0o666)
	return true, err
}

// word reads a word. It cannot be continued in the next command.
func (s *shell) word() (string, error) {
	var b strings.Builder
	for s.src != "" && !strings.ContainsRune(blanks+ends+">", rune(s.src[0])) {
		c := s.src[0]
		s.src = s.src[1:]
		switch c {
		case '\'':
			text, rest, ok := strings.Cut(s.src, "'")
			if !ok {
				return "", errors.New("a quote without its end")
			}
			b.WriteString(text)
			s.src = rest
		case '"':
			if err := s.quoted(&b); err != nil {
				return "", err
			}
		case '\\':
			s.escaped(&b)
		case '$':
			b.WriteString(s.variable())
		case '|', '<', '(', ')', '`', '*', '?', '[', '{', '~':
			return "", fmt.Errorf("sandboxtest.Memory has no %q: quote it", string(c))
		default:
			b.WriteByte(c)
		}
	}
	return b.String(), nil
}

func (s *shell) quoted(b *strings.Builder) error {
	for s.src != "" {
		c := s.src[0]
		s.src = s.src[1:]
		switch c {
		case '"':
			return nil
		case '\\':
			if s.src != "" && !strings.ContainsRune("\"\\$`", rune(s.src[0])) {
				b.WriteByte(c)
			}
			s.escaped(b)
		case '$':
			b.WriteString(s.variable())
		default:
			b.WriteByte(c)
		}
	}
	return errors.New("a quote without its end")
}

func (s *shell) escaped(b *strings.Builder) {
	if s.src != "" {
		b.WriteByte(s.src[0])
		s.src = s.src[1:]
	}
}

// variable reads what follows a dollar and returns its value.
func (s *shell) variable() string {
	n := 0
	for n < len(s.src) && (s.src[n] == '_' || '0' <= s.src[n] && s.src[n] <= '9' || 'a' <= s.src[n]|0x20 && s.src[n]|0x20 <= 'z') {
		n++
	}
	if n == 0 {
		return s.special()
	}
	name := s.src[:n]
	s.src = s.src[n:]
	if i, err := strconv.Atoi(name); err == nil {
		if i < len(s.params) {
			return s.params[i]
		}
		return ""
	}
	return s.p.Getenv(name)
}

func (s *shell) special() string {
	if rest, ok := strings.CutPrefix(s.src, "$"); ok {
		s.src = rest
		return strconv.Itoa(s.p.pid)
	}
	if rest, ok := strings.CutPrefix(s.src, "?"); ok {
		s.src = rest
		return strconv.Itoa(s.code)
	}
	return "$"
}

// do runs a command and returns its exit code.
func (s *shell) do(cmd *command) int {
	if cmd.args[0] == "exit" {
		return s.exit(cmd.args[1:])
	}
	child := s.p.child(cmd.args)
	child.Stdout, child.Stderr = cmd.stdout, cmd.stderr
	program, err := s.p.job.box.lookup(cmd.args[0], s.p.Dir)
	if err != nil {
		fmt.Fprintf(cmd.stderr, "sh: %s: %v\n", cmd.args[0], err)
		if errors.Is(err, syscall.ENOENT) {
			return 127
		}
		return 126
	}
	if cmd.background {
		child.Stdin = strings.NewReader("")
		child.start(program)
		return 0
	}
	return child.call(s.p, program).Code
}

func (s *shell) exit(args []string) int {
	s.exited = true
	if len(args) == 0 {
		return s.code
	}
	code, err := strconv.Atoi(args[0])
	if err != nil {
		return 2
	}
	return code
}
