package main

import "os"

type serverCmd struct {
	Live    liveCmd    `cmd:"" help:"Say whether it serves."`
	Ready   readyCmd   `cmd:"" help:"Say whether sandboxes can be had."`
	Openapi openapiCmd `cmd:"" help:"Print the document of its operations."`
	Docs    docsCmd    `cmd:"" help:"Print the page to try them from."`
}

type liveCmd struct{}

// Run asks.
func (c *liveCmd) Run(a *app) error { return a.copy(get("livez"), os.Stdout) }

type readyCmd struct{}

// Run asks.
func (c *readyCmd) Run(a *app) error { return a.copy(get("readyz"), os.Stdout) }

type openapiCmd struct {
	JSON bool `name:"json" help:"In JSON."`
}

// Run prints the document.
func (c *openapiCmd) Run(a *app) error {
	if c.JSON {
		return a.copy(get("openapi.json"), os.Stdout)
	}
	return a.copy(get("openapi.yaml"), os.Stdout)
}

type docsCmd struct{}

// Run prints the page.
func (c *docsCmd) Run(a *app) error { return a.copy(get("docs"), os.Stdout) }
