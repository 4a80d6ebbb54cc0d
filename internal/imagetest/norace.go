//go:build !race

package imagetest

const race = false
