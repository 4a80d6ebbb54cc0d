package hostview

import (
	"fmt"
	"strings"
)

// addMadeEtc plans the files of /etc that are made up for the guest and say nothing of the host.
func addMadeEtc(p *plan, h host) {
	shell := "/bin/sh"
	if h.exists("/bin/bash") {
		shell = "/bin/bash"
	}
	p.addFile("etc/passwd", fmt.Sprintf(""+
		"root:x:0:0:root:/root:%[1]s\n"+
		"sandbox:x:1000:1000:sandbox:/home/sandbox:%[1]s\n"+
		"nobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin\n", shell))
	p.addFile("etc/group", "root:x:0:\ntty:x:5:\nsandbox:x:1000:\nnogroup:x:65534:\n")
	p.addFile("etc/hostname", "sandbox\n")
	p.addFile("etc/hosts", ""+
		"127.0.0.1 localhost\n"+
		"127.0.1.1 sandbox\n"+
		"::1 localhost ip6-localhost ip6-loopback\n")
	p.addFile("etc/resolv.conf", "")
	p.addFile("etc/nsswitch.conf", ""+
		"passwd: files\ngroup: files\nshadow: files\n"+
		"hosts: files\nnetworks: files\n"+
		"protocols: files\nservices: files\nethers: files\nrpc: files\n")
	p.addFile("etc/profile", "PATH="+p.path()+"\nexport PATH\numask 022\n")
	p.addFile("etc/shells", shells(h))
}

// shells lists the shells the host has, as /etc/shells does.
func shells(h host) string {
	var b strings.Builder
	for _, name := range []string{"/bin/sh", "/bin/bash", "/usr/bin/bash", "/bin/dash", "/usr/bin/zsh"} {
		if h.exists(name) {
			b.WriteString(name + "\n")
		}
	}
	return b.String()
}
