// Package image keeps the root file systems of sandboxes: those that others
// built, from registries, OCI layouts and archives, and those that its recipes
// build from Debian's packages.
//
//	store, err := image.Open(image.Config{})
//	...
//	rt, err := sandbox.New(sandbox.Config{Images: store})
//	...
//	sb, err := rt.Lease(ctx, sandbox.Spec{Image: "exec"})
//
// # What an image string means
//
//	host                                 this machine's own programs
//	exec                                 a name of the store's own: built, imported, or of Config.Dirs
//	/srv/images/tools.tar                an archive, OCI layout or root file system in Config.Folders
//	/srv/images/tools.tar#tools:1.2      one of several images there
//	registry.example/org/tools:1.2       an image in a registry of Config.Registries
//	registry.example/org/tools@sha256:…  the same by digest, which cannot change
//
// A reference begins with its registry's host: a name without one is never
// looked for elsewhere. A tag is looked up when it is leased first; from then
// on it is what it was, until Pull looks again. Info.Digest of a sandbox says
// which image it has.
//
// # What a sandbox takes from an image
//
// Its files, and its environment but for HOME, USER and LOGNAME. Its user,
// workdir, entrypoint, command, volumes and ports are not followed: a sandbox
// runs the commands that it is given, as user 1000, in its class's workdir.
// Inspect tells them to who wants to. User 1000 is added to /etc/passwd and
// /etc/group where nobody has that number; mount points are made.
//
// Owners, modes and times of files are kept, long runs of zeros are holes.
// Set-user-id bits, extended attributes, named pipes, and device nodes in /dev
// are dropped; a device node elsewhere is an error.
//
// # Whose images
//
// Paths can be named in Config.Folders alone, registries are those of
// Config.Registries alone, and where Registry.Orgs is set an image's path must
// begin with the organisation that leases. What the store has of an image it
// does not fetch again: who knows an image's whole manifest can have its
// layers, if they are there.
//
// # How it is kept
//
// A layer is unpacked once, and an image's tree has the same files as its
// layers, by hard links. Nobody writes to them: sandboxes write to a layer of
// their own in memory. Everything is made aside, brought to the disk and
// renamed, so a crash leaves the old or the new. GC removes what has no name
// and no sandbox; several processes may pull, lease and collect at a time.
package image
