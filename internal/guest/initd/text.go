package initd

// What the init needs of package strings, which stands behind package unicode:
// see package guest.

// cut splits s at the first sep.
func cut(s string, sep byte) (before, after string, found bool) {
	for i := range len(s) {
		if s[i] == sep {
			return s[:i], s[i+1:], true
		}
	}
	return s, "", false
}

// base is the part of a path after its last slash.
func base(path string) string {
	for i := len(path) - 1; i >= 0; i-- {
		if path[i] == '/' {
			return path[i+1:]
		}
	}
	return path
}

// folder is the path of name's directory, with the slash. It is not cleaned:
// where ".." leads after a link, only the kernel knows.
func folder(name string) string { return name[:len(name)-len(base(name))] }

// join is a path relative to dir. It is not cleaned either.
func join(dir, name string) string {
	if dir == "" || name != "" && name[0] == '/' {
		return name
	}
	if dir[len(dir)-1] == '/' {
		return dir + name
	}
	return dir + "/" + name
}

// fields splits s at runs of spaces.
func fields(s string) (list []string) {
	for s != "" {
		word, rest, _ := cut(s, ' ')
		if word != "" {
			list = append(list, word)
		}
		s = rest
	}
	return list
}
