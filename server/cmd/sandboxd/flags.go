package main

import (
	"flag"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/hanzoai/sandbox/sandbox"
	"github.com/hanzoai/sandbox/server"
)

const defaultRoot = "/var/lib/sandboxd"

// settings are what the flags say.
type settings struct {
	listen, root, key, runsc string
	brand                    string
	oidc                     server.OIDC
	limits                   server.Limits
	maxLife, idle, grace     time.Duration
	charge                   time.Duration
	prepaid                  string
	agents                   server.Agents
	debug                    bool
	previews, frames         string
	images                   imagePolicy

	serviceKey string
	fees       server.Fees
}

// newFlags returns a set of flags, each of which an environment variable can
// set as well.
func newFlags(name string, env *environment) *flag.FlagSet {
	flags := flag.NewFlagSet(name, flag.ContinueOnError)
	flags.SetOutput(env.stderr)
	return flags
}

// parse parses the flags, then takes those that were not given from the
// environment.
func parse(flags *flag.FlagSet, env *environment, args []string) error {
	if err := flags.Parse(args); err != nil {
		if err == flag.ErrHelp { //nolint:errorlint // as Parse returns it
			return err
		}
		return fmt.Errorf("%w: %w", errUsage, err)
	}
	given := map[string]bool{}
	flags.Visit(func(f *flag.Flag) { given[f.Name] = true })
	var err error
	flags.VisitAll(func(f *flag.Flag) {
		name := "SANDBOXD_" + strings.ToUpper(strings.ReplaceAll(f.Name, "-", "_"))
		if value, ok := env.get(name); ok && !given[f.Name] && err == nil {
			if e := flags.Set(f.Name, value); e != nil {
				err = fmt.Errorf("%w: %s: %w", errUsage, name, e)
			}
		}
		if err == nil {
			err = checkNumber(f)
		}
	})
	return err
}

// canBeZero are the flags of numbers to which nothing is something to say. To
// all others it would be the default, or the end of everything.
var canBeZero = []string{"grace"}

// checkNumber refuses a number that cannot be meant, however it was given.
func checkNumber(f *flag.Flag) error {
	var n float64
	switch v := f.Value.(flag.Getter).Get().(type) {
	case time.Duration:
		n = float64(v)
	case int64:
		n = float64(v)
	case int:
		n = float64(v)
	case float64:
		n = v
	default:
		return nil
	}
	switch zero := slices.Contains(canBeZero, f.Name); {
	case math.IsNaN(n) || math.IsInf(n, 0):
		return fmt.Errorf("%w: --%s %s: want a number", errUsage, f.Name, f.Value)
	case zero && n < 0:
		return fmt.Errorf("%w: --%s %s: want no less than 0", errUsage, f.Name, f.Value)
	case !zero && n <= 0:
		return fmt.Errorf("%w: --%s %s: want more than 0", errUsage, f.Name, f.Value)
	}
	return nil
}

func settingsOf(env *environment) (*settings, error) {
	s := &settings{}
	flags := newFlags("sandboxd", env)
	flags.StringVar(&s.listen, "listen", "127.0.0.1:8080", "the `address` to serve at")
	flags.StringVar(&s.root, "root", defaultRoot, "the `folder` for all that is kept")
	flags.StringVar(&s.key, "key", "", "a `key` of the organisation default to begin with; give it in SANDBOXD_KEY, where other users do not see it")
	flags.StringVar(&s.runsc, "runsc", "", "a `runsc` to use instead of the one inside")
	flags.StringVar(&s.brand, "brand", "default", "the `organisation` that CODE_EXEC_API_KEY stands for")
	flags.StringVar(&s.oidc.Issuer, "oidc-issuer", "", "the `address` of an OpenID issuer whose tokens are taken")
	flags.StringVar(&s.oidc.Audience, "oidc-audience", "", "the `audience` that its tokens must be for")
	flags.StringVar(&s.oidc.OrgClaim, "oidc-org-claim", "owner", "the `claim` that has the organisation")
	flags.StringVar(&s.oidc.AdminClaim, "oidc-admin-claim", "", "the `claim` that is true for its administrators")
	flags.Int64Var(&s.limits.JSONBody, "json-body", 4<<20, "how many `bytes` a JSON body may have")
	flags.Int64Var(&s.limits.FileBody, "file-body", 1<<30, "how many `bytes` an uploaded file may have")
	flags.DurationVar(&s.limits.RunTime, "run-time", 15*time.Minute, "how long a command may run; SANDBOX_EXEC_TIMEOUT_SEC says it too")
	flags.IntVar(&s.limits.Runs, "runs", 256, "how many commands run at a time")
	flags.IntVar(&s.limits.OrgRuns, "org-runs", 64, "how many of them of one organisation")
	flags.Float64Var(&s.limits.Rate, "rate", 2000, "how many requests a second a key may make")
	flags.IntVar(&s.limits.Burst, "burst", 4000, "how many at once")
	flags.DurationVar(&s.maxLife, "max-life", 24*time.Hour, "the longest that a sandbox may live; SANDBOX_MAX_LIFE_SEC says it too")
	flags.DurationVar(&s.idle, "idle", 15*time.Minute, "how long a sandbox may be unused")
	flags.StringVar(&s.previews, "previews", "", "the `address` below which ports are shown: https://*.example.com, or without *. for paths; by default http://*.localhost")
	flags.StringVar(&s.frames, "frames", "", "the `sites`, with commas between them, that may show terminals and screens in a frame")
	flags.DurationVar(&s.grace, "grace", 10*time.Second, "how long requests may go on at the end")
	flags.DurationVar(&s.charge, "charge", time.Minute, "how often the time of running sandboxes is charged")
	flags.StringVar(&s.prepaid, "billing", "postpaid", "`mode`: postpaid records what is had, prepaid refuses what the balance does not cover")
	flags.StringVar(&s.images.byClass, "images", "", "what leases get that name no image, as `class=image,…`, or an image for all; by default host")
	flags.StringVar(&s.images.registries, "registries", "", "`hosts` of registries that leases may name images of; * is any whose address is public")
	flags.StringVar(&s.images.platform, "platform-registries", "", "`hosts` of registries on which a lease may name its own organisation's images alone; asked with this user's docker login")
	flags.StringVar(&s.images.shared, "shared-orgs", "", "`organisations` there whose images all leases may name")
	flags.StringVar(&s.images.folders, "image-folders", "", "`folders` in which leases may name archives and root file systems")
	flags.BoolVar(&s.agents.Off, "no-mcp", false, "does not serve agents at /v1/mcp")
	flags.BoolVar(&s.agents.Bare, "mcp-bare", false, "leaves agents the operations alone, without run_code, run_command, read_file, write_file and list_files")
	flags.BoolVar(&s.debug, "debug", false, "logs more")
	if err := parse(flags, env, env.args); err != nil {
		return nil, err
	}
	if flags.NArg() > 0 {
		return nil, fmt.Errorf("%w: %q is no command: have keys, ledger, images and mcp", errUsage, flags.Arg(0))
	}
	return s, s.complete(env)
}

// complete takes in the variables that other programs of this kind have too.
func (s *settings) complete(env *environment) error {
	if err := s.images.check(); err != nil {
		return err
	}
	s.serviceKey, _ = env.get("CODE_EXEC_API_KEY")
	switch s.prepaid {
	case "postpaid", "prepaid":
		s.fees.Prepaid = s.prepaid == "prepaid"
	default:
		return fmt.Errorf("%w: --billing %q: have postpaid and prepaid", errUsage, s.prepaid)
	}
	for name, d := range map[string]*time.Duration{"SANDBOX_EXEC_TIMEOUT_SEC": &s.limits.RunTime, "SANDBOX_MAX_LIFE_SEC": &s.maxLife} {
		if n, ok, err := cents(env, name); err != nil {
			return err
		} else if ok && n > 0 {
			*d = time.Duration(min(n, 1<<31)) * time.Second
		}
	}
	return s.price(env)
}

// price reads the fees. One that cannot be read is no reason to give things
// away.
func (s *settings) price(env *environment) error {
	s.fees.Run = 1
	for _, name := range []string{"CODE_EXEC_FEE_CENTS", "CODE_EXEC_FEE_CENTS_RUN"} { // the latter wins
		n, ok, err := cents(env, name)
		if err != nil {
			return err
		}
		if ok {
			s.fees.Run = n
		}
	}
	var err error
	if s.fees.Lease, err = byClass(env, "SANDBOX_FEE_CENTS"); err != nil {
		return err
	}
	s.fees.Hour, err = byClass(env, "SANDBOX_HOUR_CENTS")
	return err
}

// byClass reads NAME, for all classes, and NAME_CLASS.
func byClass(env *environment, prefix string) (map[string]int64, error) {
	var known []string
	for _, c := range sandbox.Classes() {
		known = append(known, "_"+strings.ToUpper(c.Name))
	}
	table := map[string]int64{}
	for _, kv := range env.all() {
		name, _, _ := strings.Cut(kv, "=")
		class, ok := strings.CutPrefix(name, prefix)
		if !ok {
			continue
		}
		if class != "" && !slices.Contains(known, class) {
			return nil, fmt.Errorf("%w: %s: there is no such class: want %s with nothing more, or with one of %s", errUsage, name, prefix, strings.Join(known, ", "))
		}
		n, ok, err := cents(env, name)
		if err != nil {
			return nil, err
		}
		if ok {
			table[strings.ToLower(strings.TrimPrefix(class, "_"))] = n
		}
	}
	return table, nil
}

// maxCents keeps sums from running over.
const maxCents = 1_000_000_00

func cents(env *environment, name string) (int64, bool, error) {
	text, ok := env.get(name)
	if !ok || text == "" {
		return 0, false, nil
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || n < 0 || n > maxCents {
		return 0, false, fmt.Errorf("%w: %s=%q: want a number from 0 to %d", errUsage, name, text, int64(maxCents))
	}
	return n, true, nil
}
