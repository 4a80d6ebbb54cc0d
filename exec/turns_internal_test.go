package exec

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"

	"github.com/matryer/is"
)

func TestTurnsAreInOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		is := is.New(t)
		q := newTurns()
		done, err := q.take(t.Context(), "a")
		is.NoErr(err)
		var order []int
		gone, cancel := context.WithCancelCause(t.Context())
		why := errors.New("gone")
		for i := range 4 {
			ctx := t.Context()
			if i == 1 {
				ctx = gone
			}
			go func() {
				done, err := q.take(ctx, "a")
				if err != nil {
					order = append(order, -i)
					return
				}
				order = append(order, i)
				done()
			}()
			synctest.Wait()
		}
		other, err := q.take(t.Context(), "b") // does not wait for a
		is.NoErr(err)
		other()
		cancel(why)
		synctest.Wait()
		done()
		synctest.Wait()
		is.Equal(order, []int{-1, 0, 2, 3}) // who gave up is no hindrance
		is.Equal(len(q.waiting), 0)         // and nothing is kept
	})
}

// A turn that comes to one who gives up at that moment is passed on.
func TestTurnThatComesTooLate(t *testing.T) {
	is := is.New(t)
	q := newTurns()
	_, err := q.take(t.Context(), "a")
	is.NoErr(err)
	mine := make(chan struct{})
	q.waiting["a"] = append(q.waiting["a"], mine)
	q.pass("a")
	q.leave("a", mine)
	is.Equal(len(q.waiting), 0)
}
