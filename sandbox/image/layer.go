package image

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"io"
	"net"
	"os"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"golang.org/x/sys/unix"

	"github.com/hanzoai/sandbox/sandbox/image/internal/tree"
)

// The parts of a layer's folder.
const (
	treeDir   = "tree"
	layerFile = "layer.json"
)

// A fetch brings one layer of an image into the store.
type fetch struct {
	store  *Store
	src    *source
	desc   v1.Descriptor // as it is kept and sent
	diffID v1.Hash       // of the archive in it
	budget *tree.Budget
	meter  *meter
	read   *countedReader // of the latest try
}

// layer returns a layer that is in the store, and the lock that keeps it
// there. A layer is unpacked once, however many images have it.
func (f *fetch) layer(ctx context.Context) (*lock, *tree.Layer, error) {
	s := f.store
	dir := s.path(layersDir, f.diffID.Hex)
	unpacked := false
	l, err := s.made(ctx, "layer-"+f.diffID.Hex, dir, func() error {
		unpacked = true
		return f.tries(ctx)
	})
	if err != nil {
		return nil, nil, err
	}
	var layer tree.Layer
	if err = readJSON(s.path(layersDir, f.diffID.Hex, layerFile), &layer); err == nil && !unpacked {
		err = f.reuse(ctx, &layer)
	}
	if err != nil {
		l.unlock()
		return nil, nil, err
	}
	f.meter.layerDone()
	return l, &layer, nil
}

// reuse takes a layer that was there from the budget, and fetches its blob if
// it was there in another compression only.
func (f *fetch) reuse(ctx context.Context, layer *tree.Layer) error {
	if err := errors.Join(f.budget.Content(layer.Bytes), f.budget.Bytes(layer.Bytes), f.budget.Entries(layer.Entries)); err != nil {
		return err
	}
	if exists(f.store.blobPath(f.desc.Digest)) {
		f.meter.have(f.desc.Size)
		return nil
	}
	return f.once(ctx, func(*workspace, io.Reader) error { return nil })
}

// fetchTries is how often a layer is fetched again after its connection broke.
const fetchTries = 3

func (f *fetch) tries(ctx context.Context) error {
	for try := 1; ; try++ {
		err := f.once(ctx, f.unpack)
		if err == nil || try == fetchTries || ctx.Err() != nil || !isBroken(err) {
			return err
		}
		f.meter.have(-f.read.n)
	}
}

// isBroken reports whether a connection ended before its time, which need not
// happen again.
func isBroken(err error) bool {
	if _, ok := errors.AsType[net.Error](err); ok {
		return true
	}
	return errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, unix.ECONNRESET)
}

// once fetches the blob, hands it on as it comes, and keeps it and what was
// made of it if it is what its digest says.
func (f *fetch) once(ctx context.Context, handle func(*workspace, io.Reader) error) (err error) {
	s := f.store
	w, err := s.workspace()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, w.remove()) }()
	from, err := f.openBlob()
	if err != nil {
		return err
	}
	defer from.Close()
	blob, err := os.OpenFile(w.path("blob"), os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer blob.Close()
	digest := sha256.New()
	f.read = f.meter.reader(from)
	limited := &io.LimitedReader{R: withContext(ctx, f.read), N: f.desc.Size + 1}
	r := io.TeeReader(limited, io.MultiWriter(digest, blob))
	if err := handle(w, r); err != nil {
		return f.wrongDigest(r, digest, err)
	}
	if _, err := io.Copy(io.Discard, r); err != nil {
		return f.wrongDigest(r, digest, err)
	}
	if err := checkDigest(digest, f.desc.Digest); err != nil {
		return err
	}
	if err := w.keep("blob", s.blobPath(f.desc.Digest)); err != nil {
		return err
	}
	if !exists(w.path("layer")) {
		return nil
	}
	return w.keep("layer", s.path(layersDir, f.diffID.Hex))
}

// openBlob opens the layer where it is: in the store, if it was kept there
// when a crash came before the rest of it.
func (f *fetch) openBlob() (io.ReadCloser, error) {
	if b, err := os.Open(f.store.blobPath(f.desc.Digest)); err == nil {
		return b, nil
	}
	return f.src.open(f.desc)
}

// wrongDigest returns what a failure comes from: bytes that are not what they
// should be can fail in any way. It reads the rest, to tell damage on the way
// from a layer that was made so.
func (f *fetch) wrongDigest(r io.Reader, digest hash.Hash, err error) error {
	if f.desc.Size-f.read.n <= wrongDigestRead {
		_, _ = io.Copy(io.Discard, r) // how it ends does not matter, but what has come
	}
	if f.read.n >= f.desc.Size {
		if wrong := checkDigest(digest, f.desc.Digest); wrong != nil {
			return wrong
		}
	}
	return err
}

const wrongDigestRead = 64 << 20

func checkDigest(h hash.Hash, want v1.Hash) error {
	if got := hex.EncodeToString(h.Sum(nil)); got != want.Hex {
		return &DigestError{Want: want.String(), Got: "sha256:" + got}
	}
	return nil
}

// unpack makes the layer's folder in a workspace.
func (f *fetch) unpack(w *workspace, r io.Reader) error {
	if err := os.MkdirAll(w.path("layer/"+treeDir), 0o755); err != nil {
		return err
	}
	raw, _, err := decompress(r)
	if err != nil {
		return err
	}
	defer raw.Close()
	diff := sha256.New()
	ahead, stop := readAhead(raw)
	layer, err := tree.Unpack(w.path("layer/"+treeDir), io.TeeReader(ahead, diff), f.budget)
	stop()
	if err != nil {
		return err
	}
	if err := checkDigest(diff, f.diffID); err != nil {
		return fmt.Errorf("unpacked: %w", err)
	}
	b, err := json.Marshal(layer)
	if err != nil {
		return err
	}
	return os.WriteFile(w.path("layer/"+layerFile), b, 0o600)
}
