package wire

// A Tree says what of a directory, and of those below it, OpTree lists.
type Tree struct {
	Entries    int      // how many files and folders are looked at
	Depth      int      // of folders below the directory
	SkipHidden bool     // folders whose names begin with a dot are not looked into
	Skip       []string // nor are those of these names
	Except     []string // but for these paths below the directory
	Track      bool     // first to note what changes, until the host asks for the listing by a second Request
}

const (
	tagEntries = iota + 1
	tagDepth
	tagSkipHidden
	tagSkip
	tagExcept
	tagTrack
)

func (t *Tree) append(b []byte) []byte {
	b = putUint(b, tagEntries, uint64(t.Entries))
	b = putUint(b, tagDepth, uint64(t.Depth))
	b = putBool(b, tagSkipHidden, t.SkipHidden)
	b = putStrings(b, tagSkip, t.Skip)
	b = putStrings(b, tagExcept, t.Except)
	return putBool(b, tagTrack, t.Track)
}

func (t *Tree) decode(b []byte) error {
	*t = Tree{}
	return eachField(b, func(tag byte, v value) error {
		switch tag {
		case tagEntries:
			t.Entries = int(v.uint() & maxCount)
		case tagDepth:
			t.Depth = int(v.uint() & maxCount)
		case tagSkipHidden:
			t.SkipHidden = v.uint() != 0
		case tagSkip:
			t.Skip = append(t.Skip, v.string())
		case tagExcept:
			t.Except = append(t.Except, v.string())
		case tagTrack:
			t.Track = v.uint() != 0
		}
		return nil
	})
}

const maxCount = 1<<31 - 1

// Omitted is why something is not in a Tree.
type Omitted byte

// The reasons.
const (
	_                 Omitted = iota // it is there
	OmittedDepth                     // a folder deeper than Depth
	OmittedEntries                   // the rest of a folder, and those after it
	OmittedUnreadable                // a folder that could not be read
)

// A TreeEntry is what is at one path of a Tree.
type TreeEntry struct {
	Stat            // its Name is the path below the directory; of what is not Changed it has no more than the type
	Changed bool    // or, where nothing was tracked, true
	Omitted Omitted // if not 0, there is no more than the Name
}

// AppendTreeEntry appends one entry of a Tree, which is a row of them.
func AppendTreeEntry(b []byte, e *TreeEntry) []byte {
	var v []byte
	if e.Changed {
		v = e.Stat.Append(nil)
	} else {
		v = putUint(putString(nil, tagName, e.Name), tagMode, uint64(e.Mode))
	}
	v = putBool(v, tagTouched, e.Changed)
	return putBytes(b, tagName, putUint(v, tagOmitted, uint64(e.Omitted)))
}

// EachTreeEntry calls f with every entry of the part b of a Tree.
func EachTreeEntry(b []byte, f func(*TreeEntry) error) error {
	return eachField(b, func(tag byte, v value) error {
		if tag != tagName {
			return nil
		}
		var e TreeEntry
		if err := e.Stat.Decode(v); err != nil {
			return err
		}
		err := eachField(v, func(tag byte, v value) error {
			switch tag {
			case tagTouched:
				e.Changed = v.uint() != 0
			case tagOmitted:
				e.Omitted = Omitted(v.uint())
			}
			return nil
		})
		if err != nil {
			return err
		}
		return f(&e)
	})
}
