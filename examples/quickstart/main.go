package main

import (
	"context"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"time"

	"github.com/hanzoai/sandbox/sandbox"
	_ "github.com/hanzoai/sandbox/sandbox/runsc"
)

func main() {
	t0 := time.Now()
	ctx := context.Background()
	rt, err := sandbox.New(sandbox.Config{})
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	defer rt.Close()
	fmt.Println("new", time.Since(t0))
	sb, err := rt.Lease(ctx, sandbox.Spec{})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println("lease", time.Since(t0))
	out, err := sb.Command("sh", "-c", "echo hi; id; uname -a; dmesg|head -3; ls -la / /mnt/data /run/sandbox; cat /proc/self/cgroup; mount | head -50; env").CombinedOutput(ctx)
	fmt.Println(string(out), err, time.Since(t0))
	for range 30 {
		t := time.Now()
		err = sb.Command("true").Run(ctx)
		fmt.Print(time.Since(t), " ", err, ", ")
	}
	fmt.Println()
	err = sb.WriteFile(ctx, "a/b.txt", strings.NewReader("hello"), 0o644)
	b, err2 := fs.ReadFile(sb.FS(ctx), "a/b.txt")
	fmt.Println(err, string(b), err2)
	t := time.Now()
	fmt.Println(sb.End(ctx), time.Since(t))
}
