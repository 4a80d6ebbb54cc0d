package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"text/tabwriter"
	"time"

	"github.com/hanzoai/sandbox/server"
	"github.com/hanzoai/sandbox/server/store"
)

const keysUsage = "keys create --org NAME [--user NAME] [--admin], keys list, keys revoke ID"

// keys works beside a server on the same root, which knows at once.
func keys(ctx context.Context, env *environment, args []string) error {
	verb, args := verbOf(args)
	flags := newFlags("sandboxd keys "+verb, env)
	root := flags.String("root", defaultRoot, "the server's `folder`")
	var org, user *string
	var admin *bool
	if verb == "create" {
		org = flags.String("org", "", "the `organisation` that it is of")
		user = flags.String("user", "", "its `member`; without one it is the organisation's own and sees all of it")
		admin = flags.Bool("admin", false, "sees all of the organisation")
	}
	if err := parseVerb(flags, env, args); err != nil {
		return err
	}
	return withStore(ctx, *root, func(s *store.Store) error {
		switch {
		case verb == "create" && flags.NArg() == 0:
			return createKey(ctx, env, s, *org, *user, *admin)
		case verb == "list" && flags.NArg() == 0:
			return listKeys(ctx, env, s)
		case verb == "revoke" && flags.NArg() == 1:
			return s.RevokeKey(ctx, flags.Arg(0))
		}
		return fmt.Errorf("%w: %s", errUsage, keysUsage)
	})
}

func verbOf(args []string) (string, []string) {
	if len(args) == 0 {
		return "", nil
	}
	return args[0], args[1:]
}

// parseVerb parses flags that may come before and after arguments.
func parseVerb(flags *flag.FlagSet, env *environment, args []string) error {
	if err := parse(flags, env, args); err != nil {
		return err
	}
	rest := flags.Args()
	var plain []string
	for len(rest) > 0 && rest[0] != "" && rest[0][0] != '-' {
		plain, rest = append(plain, rest[0]), rest[1:]
	}
	if len(rest) == 0 {
		return nil
	}
	return parse(flags, env, append(rest, plain...))
}

func withStore(ctx context.Context, root string, do func(*store.Store) error) error {
	s, err := store.Open(ctx, root)
	if err != nil {
		return err
	}
	return errors.Join(do(s), s.Close())
}

func createKey(ctx context.Context, env *environment, s *store.Store, org, user string, admin bool) error {
	secret := server.NewKey()
	if _, err := s.AddKey(ctx, secret, org, user, admin); err != nil {
		return err
	}
	fmt.Fprintln(env.stdout, secret)
	return nil
}

func listKeys(ctx context.Context, env *environment, s *store.Store) error {
	list, err := s.Keys(ctx)
	if err != nil {
		return err
	}
	w := tabwriter.NewWriter(env.stdout, 0, 8, 2, ' ', 0)
	fmt.Fprintln(w, "ID\tORG\tUSER\tADMIN\tCREATED\tREVOKED")
	for _, k := range list {
		revoked := "-"
		if !k.Revoked.IsZero() {
			revoked = k.Revoked.UTC().Format(time.RFC3339)
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%t\t%s\t%s\n", k.ID, k.Org, k.User, k.Admin, k.Created.UTC().Format(time.RFC3339), revoked)
	}
	return w.Flush()
}
