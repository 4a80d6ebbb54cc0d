package headtail_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/matryer/is"

	"github.com/hanzoai/sandbox/internal/headtail"
)

// TestBuffer writes texts of all lengths, in pieces of any, and compares with
// what is cut out of the whole.
func TestBuffer(t *testing.T) {
	const limit = 7
	for size := range 5 * limit {
		is := is.New(t)
		text := strings.Repeat("0123456789", limit)[:size]
		b := &headtail.Buffer{Limit: limit}
		is.Equal(b.Last(), byte(0))
		for rest := text; rest != ""; {
			n, err := b.Write([]byte(rest[:1+rand.IntN(len(rest))]))
			is.NoErr(err)
			rest = rest[n:]
			is.Equal(b.Last(), text[len(text)-len(rest)-1])
		}
		want := text
		if left := size - 2*limit; left > 0 {
			want = fmt.Sprintf("%s\n... %d bytes left out ...\n%s", text[:limit], left, text[size-limit:])
		}
		is.Equal(string(b.Bytes()), want)
	}
}
