package hostview

// BuildFrom is Build for a machine whose files are under root.
func BuildFrom(dir, root string, env map[string]string) (View, error) {
	return build(dir, host{root: root, getenv: func(key string) string { return env[key] }})
}
