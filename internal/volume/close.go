package volume

import (
	"context"
	"errors"
)

// Close unmounts all volumes. It is for who is going to remove the folder;
// others may leave them mounted, for the next Store to find.
func (s *Store) Close(ctx context.Context) error {
	list, err := s.List()
	errs := []error{err}
	for _, v := range list {
		if v.Mounted {
			_, err := s.Unmount(ctx, v.Name)
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}
