package hostview

import "slices"

// systemDirs are the host's directories of programs, and what they may be instead: where /usr is merged, a
// link of the usual relative form. Left out are /usr/etc and /usr/local, where settings and site tools
// are, and /usr/src and /usr/games, which nobody needs.
var systemDirs = []struct {
	name  string
	links []string
}{
	{"/bin", []string{"usr/bin"}},
	{"/sbin", []string{"usr/sbin", "usr/bin"}},
	{"/lib", []string{"usr/lib"}},
	{"/lib32", []string{"usr/lib32"}},
	{"/lib64", []string{"usr/lib64", "usr/lib"}},
	{"/libx32", []string{"usr/libx32"}},
	{"/usr/bin", nil},
	{"/usr/sbin", []string{"bin"}},
	{"/usr/lib", nil},
	{"/usr/lib32", nil},
	{"/usr/lib64", []string{"lib"}},
	{"/usr/libx32", nil},
	{"/usr/libexec", nil},
	{"/usr/include", nil},
	{"/usr/share", nil},
}

func addSystem(p *plan, h host) error {
	for _, d := range systemDirs {
		if h.isDir(d.name) {
			if err := p.addBind(h, d.name, d.name); err != nil {
				return err
			}
			continue
		}
		if text := h.link(d.name); slices.Contains(d.links, text) {
			p.addLink(d.name, text)
		}
	}
	return nil
}
