// Package tree turns the layers of images, which may be hostile, into file
// trees, and lays trees over one another.
//
// Names are looked up in a tree as they would be by a process whose root it
// is: an absolute link begins at the tree's top, and ".." does not lead above
// it. On top of that everything is opened through os.Root, which refuses what
// would still lead out.
package tree
