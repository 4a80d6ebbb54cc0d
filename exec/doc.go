// Package exec is a code interpreter: it runs snippets of thirteen languages
// in sandboxes, and moves files in and out of them.
//
//	rt, err := sandbox.New(sandbox.Config{})
//	...
//	it, err := exec.New(rt, exec.Config{})
//	...
//	res, err := it.Run(ctx, exec.Snippet{Language: "py", Code: "print(6 * 7)"})
//	...
//	fmt.Print(res.Stdout)
//
// # A session is a sandbox
//
// Result.Session is the id of the sandbox in which the snippet ran. The next
// Snippet that names it finds the files there, and so does everything else
// that knows the sandbox: there is no other record of a session. Its life is
// the sandbox's, which this package never ends; a session that has ended is
// followed by a fresh one, with an id of its own. Processes do not outlive a
// run unless they are left in the background, and nothing in memory is kept.
//
// # What a run reports
//
// A program that fails is no error: its status is in the Result, as are the
// ends of what it printed. Result.Files are the regular files that it made or
// changed, by their content: not what it touched, or wrote again as it was.
// Links are not followed, and hidden folders and caches are not looked into,
// unless a file was put there from outside. Whatever a limit leaves out is in
// Result.Omitted.
//
// In an error of this package a file is named as in the call, and nothing of
// this machine is.
//
// # Inputs
//
// A Snippet names files of other sessions, and under which names the program
// is to find them. They are carried in; one that is missing is named on
// standard error, and the program runs.
//
// # Concurrency
//
// An Interpreter is safe for concurrent use. Runs in different sessions know
// nothing of each other. Runs in one session take turns, in the order in which
// they came, if they come by one Interpreter or by others that With made of
// it. Two that are unrelated, as in two processes, do not know of each other's
// turns: their programs do not get mixed up, but each reports what either
// wrote.
//
// # What is kept in a session
//
// The working directory has a folder .exec, with the programs that compilers
// made, and a record of the content that was last seen of each file. A session
// can write there, and so deceive itself, but nobody else. A script lies in
// the working directory while it runs, under a hidden name, so that what it
// names relative to itself is found.
package exec
