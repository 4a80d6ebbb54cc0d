package cgroup

// For tests, which look at trees of their own making.
var (
	OpenAt  = open
	Unified = unified
)
