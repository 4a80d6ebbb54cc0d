package main

import (
	"errors"
	"fmt"
	"net/http"
)

// sandboxCmd is everything about sandboxes. The fields of a command that have
// a json tag are the body of its operation.
type sandboxCmd struct {
	List   listCmd   `cmd:"" aliases:"ls" help:"List the sandboxes you hold."`
	Get    getCmd    `cmd:"" help:"Describe a sandbox."`
	Create createCmd `cmd:"" help:"Lease a sandbox; fails if the project has one."`
	Lease  leaseCmd  `cmd:"" help:"Lease a sandbox, or come back to one by --id."`
	Renew  renewCmd  `cmd:"" help:"Lengthen a lease."`
	Exec   execCmd   `cmd:"" help:"Run a program as if it were here: streams, signals, terminal, exit code."`
	Run    runCmd    `cmd:"" help:"Run a command and show what it said when it has ended."`
	Stop   stopCmd   `cmd:"" help:"Stop the commands that run, and keep the sandbox."`
	Read   readCmd   `cmd:"" help:"Read a file or list a directory, as a value."`
	Write  writeCmd  `cmd:"" help:"Write a file, from --data or standard input."`
	Fs     fsCmd     `cmd:"" help:"Files as streams."`
	Cp     cpCmd     `cmd:"" help:"Copy files and folders to a sandbox, or from one."`
	Pause  pauseCmd  `cmd:"" help:"End the processes and keep the files, at the cost of disk alone."`
	Resume resumeCmd `cmd:"" help:"Start a paused sandbox again."`
	Ports  portsCmd  `cmd:"" help:"List the ports that programs inside listen on."`

	Preview     previewCmd  `cmd:"" help:"Get a link that opens a port in a browser."`
	PortForward forwardCmd  `cmd:"" help:"Have ports of a sandbox on this machine."`
	Terminal    terminalCmd `cmd:"" help:"Open a terminal, or get its page, ticket or socket."`
	Screen      screenCmd   `cmd:"" help:"Get a desktop's page, ticket or socket."`
	End         endCmd      `cmd:"" help:"End a sandbox, by --id."`
	Rm          rmCmd       `cmd:"" aliases:"delete" help:"End sandboxes."`
}

// Help is what --help adds.
func (c *sandboxCmd) Help() string {
	return `Examples:
  id=$(hanzo sandbox lease --class dev --project website -o name)
  hanzo sandbox cp ./src $id:src
  hanzo sandbox exec $id -- ls src
  hanzo sandbox exec -t $id
  hanzo sandbox rm $id`
}

type listCmd struct {
	Project string `help:"Only those of this project."`
	Status  string `help:"Only those with this status."`
}

// Run lists.
func (c *listCmd) Run(a *app) error {
	q := get("v1", "sandbox")
	q.query = values("project", c.Project, "status", c.Status)
	return a.show(q)
}

type getCmd struct {
	ID string `arg:"" help:"The sandbox."`
}

// Run describes.
func (c *getCmd) Run(a *app) error { return a.show(get("v1", "sandbox", c.ID)) }

// leased are the flags of a lease.
type leased struct {
	Class   string   `json:"class,omitempty" help:"The kind of sandbox: exec, dev or desktop."`
	Project string   `json:"project,omitempty" help:"The project whose files it is to have."`
	Image   string   `json:"image,omitempty" help:"The root file system."`
	Runtime string   `json:"runtime,omitempty" help:"The boundary that is wanted: gvisor."`
	Cluster string   `json:"cluster,omitempty" help:"Where to place it."`
	TTLSec  seconds  `name:"ttl-sec" aliases:"ttl" json:"ttlSec,omitempty" placeholder:"SECONDS" help:"How long the lease lasts, in seconds or as 1h30m; --ttl says it too."`
	Env     []string `sep:"none" json:"env,omitempty" placeholder:"KEY=VALUE" help:"Added to the environment of every command; may be repeated."`
	Disk    bool     `json:"disk,omitempty" help:"A volume of its own, so that it can be paused."`
	Fixed   bool     `json:"fixed,omitempty" help:"End the lease then also when the sandbox is in use."`
	CPUs    float64  `name:"cpus" json:"cpus,omitempty" placeholder:"N" help:"How many processors it may use."`
	Memory  byteSize `json:"memory,omitempty" placeholder:"BYTES" help:"How much memory it may use, in bytes or as 4GiB."`
	Network string   `json:"network,omitempty" help:"What it can reach: none."`
}

type createCmd struct {
	leased
	Data string `json:"-" placeholder:"JSON|-" help:"The whole request, or - for standard input, instead of the flags."`
}

// Run leases.
func (c *createCmd) Run(a *app) error {
	if c.Data != "" {
		return a.sendData(post("v1", "sandbox"), c.Data)
	}
	return a.send(post("v1", "sandbox"), &c.leased)
}

type leaseCmd struct {
	ID string `json:"id,omitempty" help:"The sandbox to come back to. Another one is leased if it is gone."`
	leased
}

// Help is what --help adds.
func (c *leaseCmd) Help() string {
	return `Examples:
  hanzo sandbox lease -o name                         # nothing but the id
  hanzo sandbox lease --class dev --project website   # the project's files, or a new project
  hanzo sandbox lease --id ID                         # on with one, also with one that is paused
  hanzo sandbox lease --image exec --cpus 4 --memory 8GiB --ttl 1h`
}

// Run leases.
func (c *leaseCmd) Run(a *app) error { return a.send(post("v1", "sandbox", "lease"), c) }

type renewCmd struct {
	ID     string  `arg:"" json:"-" help:"The sandbox."`
	TTLSec seconds `name:"ttl-sec" aliases:"ttl" json:"ttlSec,omitempty" placeholder:"SECONDS" help:"How long it is to last from now, in seconds or as 1h30m; by default as long as it was leased for."`
}

// Run renews.
func (c *renewCmd) Run(a *app) error { return a.send(post("v1", "sandbox", c.ID, "renew"), c) }

type stopCmd struct {
	ID string `json:"id" required:"" help:"The sandbox."`
}

// Run stops commands.
func (c *stopCmd) Run(a *app) error { return a.send(post("v1", "sandbox", "stop"), c) }

type pauseCmd struct {
	ID string `arg:"" help:"The sandbox."`
}

// Run pauses.
func (c *pauseCmd) Run(a *app) error { return a.show(post("v1", "sandbox", c.ID, "pause")) }

type resumeCmd struct {
	ID string `arg:"" help:"The sandbox."`
}

// Run resumes.
func (c *resumeCmd) Run(a *app) error { return a.show(post("v1", "sandbox", c.ID, "resume")) }

type portsCmd struct {
	ID string `arg:"" help:"The sandbox."`
}

// Run lists ports.
func (c *portsCmd) Run(a *app) error { return a.show(get("v1", "sandbox", c.ID, "ports")) }

type endCmd struct {
	ID    string `json:"id" required:"" help:"The sandbox."`
	Purge bool   `json:"purge,omitempty" help:"Delete the volume of its project too."`
}

// Run ends.
func (c *endCmd) Run(a *app) error { return a.send(post("v1", "sandbox", "end"), c) }

type rmCmd struct {
	IDs   []string `arg:"" name:"id" help:"The sandboxes."`
	Purge bool     `help:"Delete the volumes of their projects too."`
}

// Run ends them one after the other. One that cannot be is no reason to keep
// the others.
func (c *rmCmd) Run(a *app) error {
	var failed []error
	for _, id := range c.IDs {
		q := call{method: http.MethodDelete, path: []string{"v1", "sandbox", id}}
		if c.Purge {
			q.query = values("purge", "1")
		}
		if err := a.show(q); err != nil {
			failed = append(failed, fmt.Errorf("%s: %w", id, err))
		}
	}
	return errors.Join(failed...)
}
