package cgroup

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// unified chooses, in a v2 hierarchy mounted at root, where groups with these
// controllers can be made, and says what is wrong with controllers that it
// could not have.
//
// A group that holds processes can give controllers to none below it, but for
// the very root. So where ours does, the next place is beside it: one up, and
// at last the root. Only what is needed is turned on there, nothing is moved.
func unified(root, own string, names []string) (best Place, why string) {
	for dir := own; ; dir = filepath.Dir(dir) {
		usable, err := enable(dir, names)
		if err != "" && why == "" {
			why = err
		}
		if len(usable) > len(best.Controllers) {
			best = Place{Dir: dir, Unified: true, Controllers: usable}
		}
		if len(usable) == len(names) {
			return best, ""
		}
		if dir == root || len(dir) <= len(root) {
			return best, why
		}
	}
}

// enable turns controllers on for the groups in dir, and returns those that
// are on.
func enable(dir string, names []string) (usable []string, why string) {
	if why := unwritable(dir); why != "" {
		return nil, why
	}
	file := filepath.Join(dir, "cgroup.subtree_control")
	on := words(file)
	for _, name := range names {
		if slices.Contains(on, name) {
			usable = append(usable, name)
			continue
		}
		switch err := write(file, "+"+name); {
		case err == nil:
			usable = append(usable, name)
		case errors.Is(err, unix.EBUSY):
			why = dir + " has processes of its own and can give the controller to no group below it: start the program in a group of its own (systemd: Delegate=yes and DelegateSubgroup=main)"
		case errors.Is(err, unix.ENOENT), errors.Is(err, unix.EINVAL):
			why = dir + " was not given the controller from above (systemd: Delegate=yes)"
		default:
			why = err.Error()
		}
	}
	return usable, why
}

func words(path string) []string {
	b, err := os.ReadFile(path)
	if err != nil {
		return nil
	}
	return strings.Fields(string(b))
}
