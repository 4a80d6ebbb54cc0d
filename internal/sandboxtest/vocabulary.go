package sandboxtest

import (
	"context"
	"fmt"
	"io"
	"io/fs"
	"path"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

// vocabulary is the programs of every sandbox.
var vocabulary = map[string]Program{
	"true":     func(context.Context, *Proc) int { return 0 },
	"false":    func(context.Context, *Proc) int { return 1 },
	"pwd":      func(_ context.Context, p *Proc) int { return p.print(p.Dir + "\n") },
	"env":      func(_ context.Context, p *Proc) int { return p.print(strings.Join(p.Env, "\n") + "\n") },
	"printenv": printenv,
	"sleep":    sleep,
	"echo":     echoWords,
	"printf":   printf,
	"cat":      cat,
	"tee":      tee,
	"wc":       wc,
	"ln":       ln,
	"kill":     kill,
	"listen":   listen,
	"sh":       sh,
}

// print writes to standard output and returns the exit code of a program that
// had nothing else to do.
func (p *Proc) print(s string) int {
	if _, err := io.WriteString(p.Stdout, s); err != nil {
		return p.complain(err)
	}
	return 0
}

// usage is the end of a program that knows fewer options than it was given.
func (p *Proc) usage() int {
	p.complain(fmt.Errorf("sandboxtest.Memory does not do %q", p.Args))
	return 2
}

func printenv(_ context.Context, p *Proc) int {
	if len(p.Args) != 2 {
		return p.usage()
	}
	for _, kv := range p.Env {
		if value, ok := strings.CutPrefix(kv, p.Args[1]+"="); ok {
			return p.print(value + "\n")
		}
	}
	return 1
}

func sleep(ctx context.Context, p *Proc) int {
	if len(p.Args) != 2 {
		return p.usage()
	}
	seconds, err := strconv.ParseFloat(p.Args[1], 64)
	if err != nil {
		return p.usage()
	}
	over := time.NewTimer(time.Duration(seconds * float64(time.Second)))
	defer over.Stop()
	select {
	case <-over.C:
	case <-ctx.Done():
	}
	return 0
}

func echoWords(_ context.Context, p *Proc) int {
	words, end := p.Args[1:], "\n"
	if len(words) > 0 && words[0] == "-n" {
		words, end = words[1:], ""
	}
	return p.print(strings.Join(words, " ") + end)
}

func printf(_ context.Context, p *Proc) int {
	if len(p.Args) < 2 || p.Args[1] != `%s\n` {
		return p.usage()
	}
	return p.print(strings.Join(append(p.Args[2:len(p.Args):len(p.Args)], ""), "\n"))
}

func cat(_ context.Context, p *Proc) int {
	if len(p.Args) == 1 {
		if _, err := io.Copy(p.Stdout, p.Stdin); err != nil {
			return p.complain(err)
		}
		return 0
	}
	for _, name := range p.Args[1:] {
		data, err := p.ReadFile(name)
		if err != nil {
			return p.complain(err)
		}
		if code := p.print(string(data)); code != 0 {
			return code
		}
	}
	return 0
}

func tee(_ context.Context, p *Proc) int {
	to := []io.Writer{p.Stdout}
	for _, name := range p.Args[1:] {
		f, err := p.create(name, 0o666)
		if err != nil {
			return p.complain(err)
		}
		to = append(to, f)
	}
	if _, err := io.Copy(io.MultiWriter(to...), p.Stdin); err != nil {
		return p.complain(err)
	}
	return 0
}

func wc(_ context.Context, p *Proc) int {
	if len(p.Args) < 2 || len(p.Args) > 3 || p.Args[1] != "-c" {
		return p.usage()
	}
	if len(p.Args) == 3 {
		data, err := p.ReadFile(p.Args[2])
		if err != nil {
			return p.complain(err)
		}
		return p.print(fmt.Sprintf("%d %s\n", len(data), p.Args[2]))
	}
	n, err := io.Copy(io.Discard, p.Stdin)
	if err != nil {
		return p.complain(err)
	}
	return p.print(fmt.Sprintf("%d\n", n))
}

func ln(_ context.Context, p *Proc) int {
	if len(p.Args) != 4 || p.Args[1] != "-s" {
		return p.usage()
	}
	if err := p.job.box.files.symlink(p.Args[2], p.path(p.Args[3])); err != nil {
		return p.complain(&fs.PathError{Op: "ln", Path: p.Args[3], Err: err})
	}
	return 0
}

var signals = map[string]syscall.Signal{
	"-HUP": syscall.SIGHUP, "-INT": syscall.SIGINT, "-KILL": syscall.SIGKILL, "-9": syscall.SIGKILL,
	"-USR1": syscall.SIGUSR1, "-TERM": syscall.SIGTERM, "-15": syscall.SIGTERM, "-0": 0,
}

func kill(_ context.Context, p *Proc) int {
	if len(p.Args) != 3 {
		return p.usage()
	}
	sig, ok := signals[p.Args[1]]
	pid, err := strconv.Atoi(p.Args[2])
	if !ok || err != nil {
		return p.usage()
	}
	if !p.job.box.signal(sig, func(other *Proc) bool { return other.pid == pid }) {
		return p.complain(syscall.ESRCH)
	}
	return 0
}

// listen is the echo server of the contract.
func listen(_ context.Context, p *Proc) int {
	if len(p.Args) != 2 {
		return p.usage()
	}
	port, err := strconv.Atoi(p.Args[1])
	if err != nil {
		return p.usage()
	}
	l, err := p.Listen(port)
	if err != nil {
		return p.complain(err)
	}
	var conns sync.WaitGroup
	defer conns.Wait()
	p.print("listening on port " + p.Args[1] + "\n")
	for {
		conn, err := l.Accept()
		if err != nil {
			return 0
		}
		conns.Go(func() {
			defer conn.Close()
			io.Copy(conn, conn)
		})
	}
}

// sh runs a script that is an argument, or a file.
func sh(_ context.Context, p *Proc) int {
	if len(p.Args) < 2 {
		return p.usage()
	}
	s := &shell{p: p, params: p.Args[1:]}
	if p.Args[1] == "-c" {
		if len(p.Args) < 3 {
			return p.usage()
		}
		s.src, s.params = p.Args[2], p.Args[3:]
		if len(s.params) == 0 {
			s.params = p.Args[:1]
		}
		return s.run()
	}
	data, err := p.ReadFile(p.Args[1])
	if err != nil {
		fmt.Fprintf(p.Stderr, "%s: %v\n", path.Base(p.Args[0]), err)
		return 2
	}
	s.src = string(data)
	return s.run()
}
