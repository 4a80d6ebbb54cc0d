package main

import (
	"cmp"
	"context"
	"crypto/rand"
	"fmt"
	"strconv"
	"text/tabwriter"
	"time"

	"github.com/hanzoai/sandbox/server"
	"github.com/hanzoai/sandbox/server/store"
)

const ledgerUsage = "ledger credit|debit --org NAME CENTS [--ref TEXT], ledger balance --org NAME, ledger usage [--org NAME] [--since DURATION]"

func ledger(ctx context.Context, env *environment, args []string) error {
	verb, args := verbOf(args)
	flags := newFlags("sandboxd ledger "+verb, env)
	root := flags.String("root", defaultRoot, "the server's `folder`")
	org := flags.String("org", "", "the `organisation`")
	ref := flags.String("ref", "", "of credit and debit, what it is for; another of the same `text` changes nothing")
	since := flags.Duration("since", 30*24*time.Hour, "of usage, how far back")
	if err := parseVerb(flags, env, args); err != nil {
		return err
	}
	return withStore(ctx, *root, func(s *store.Store) error {
		switch {
		case (verb == "credit" || verb == "debit") && flags.NArg() == 1:
			n, err := strconv.ParseInt(flags.Arg(0), 10, 64)
			if err != nil {
				return fmt.Errorf("%w: %q: want a number of cents", errUsage, flags.Arg(0))
			}
			pay := s.Credit
			if verb == "debit" {
				pay = s.Debit
			}
			return pay(ctx, cmp.Or(*ref, rand.Text()), *org, n)
		case verb == "balance" && flags.NArg() == 0 && *org != "":
			amount, err := s.Balance(ctx, *org)
			if err == nil {
				fmt.Fprintln(env.stdout, inCents(amount))
			}
			return err
		case verb == "usage" && flags.NArg() == 0:
			return usage(ctx, env, s, *org, time.Now().Add(-*since))
		}
		return fmt.Errorf("%w: %s", errUsage, ledgerUsage)
	})
}

// inCents is an amount with as many digits as it needs.
func inCents(amount int64) string {
	return strconv.FormatFloat(float64(amount)/server.Cent, 'f', -1, 64)
}

func usage(ctx context.Context, env *environment, s *store.Store, org string, since time.Time) error {
	list, err := s.Usage(ctx, org, since)
	if err != nil {
		return err
	}
	w := tabwriter.NewWriter(env.stdout, 0, 8, 2, ' ', 0)
	fmt.Fprintln(w, "ORG\tKIND\tCLASS\tCOUNT\tSECONDS\tCENTS")
	for _, u := range list {
		fmt.Fprintf(w, "%s\t%s\t%s\t%d\t%d\t%s\n", u.Org, u.Kind, u.Class, u.Count, u.Seconds, inCents(u.Amount))
	}
	return w.Flush()
}
