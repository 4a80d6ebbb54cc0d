# Finishes a root file system: mmdebstrap runs it with the file system's folder as $1. $EXTRA is what comes from elsewhere.
set -eu
root=$1

in_root() { chroot "$root" env -i PATH=/usr/local/go/bin:/usr/local/bin:/usr/bin:/bin LANG=C.UTF-8 HOME=/root "$@"; }

# Where the packages came from is this machine's business.
#
# $root/tmp has the configuration by which mmdebstrap's apt works in there. It must stay: without it, what mmdebstrap does
# after this it would do to this machine's own package lists.
rm -rf "$root"/etc/apt/sources.list "$root"/etc/apt/sources.list.d/* "$root"/etc/apt/auth.conf* "$root"/etc/apt/apt.conf.d/99mmdebstrap "$root"/etc/dpkg/dpkg.cfg.d/99mmdebstrap
rm -f "$root"/etc/dpkg/dpkg.cfg.d/sandbox

# What dpkg was told to leave out, of packages that were there before it was told.
find "$root/usr/share/man" "$root/usr/share/info" "$root/usr/share/locale" ! -type d -delete
find "$root/usr/share/doc" ! -type d ! -name copyright -delete
find "$root/usr/share/doc" "$root/usr/share/locale" "$root/usr/share/man" -mindepth 1 -type d -empty ! -name man1 -delete

rm -f "$root"/etc/hostname "$root"/etc/resolv.conf
echo sandbox >"$root/etc/hostname"
: >"$root/etc/resolv.conf"
: >"$root/etc/machine-id"
rm -f "$root"/var/lib/dbus/machine-id

grep -q '^sandbox:' "$root/etc/passwd" || echo 'sandbox:x:1000:1000::/home/sandbox:/bin/bash' >>"$root/etc/passwd"
grep -q '^sandbox:' "$root/etc/group" || echo 'sandbox:x:1000:' >>"$root/etc/group"
mkdir -p "$root/home/sandbox" "$root/mnt/data"
chown 1000:1000 "$root/home/sandbox" "$root/mnt/data"

cp -R --preserve=mode,links "$EXTRA/." "$root/"

if [ -x "$root/usr/local/go/bin/go" ]; then
	# Go comes without its library compiled, which would take half a minute at each sandbox's first program.
	mkdir -p "$root/usr/local/go/cache"
	in_root GOCACHE=/usr/local/go/cache GOTOOLCHAIN=local GOTELEMETRY=off go build std
	rm -rf "$root"/usr/local/go/cache/fuzz "$root"/usr/local/go/cache/trim.txt "$root"/usr/local/go/cache/testexpire.txt
	chmod -R u=rwX,go=rX "$root/usr/local/go/cache"
	# Go will not work with a cache that it cannot write to, and nobody can write to an image. So each user's cache begins with
	# links to what is there; the time in trim.txt keeps go from tidying them away as old.
	cat >"$root/usr/local/bin/go" <<-'END'
		#!/bin/sh
		cache=${GOCACHE:-$HOME/.cache/go-build}
		if [ ! -e "$cache/trim.txt" ]; then
			mkdir -p "$cache" && cp -rs /usr/local/go/cache/. "$cache/" && date +%s >"$cache/trim.txt"
		fi
		GOCACHE=$cache exec /usr/local/go/bin/go "$@"
	END
	chmod 0755 "$root/usr/local/bin/go"
	ln -sf ../go/bin/gofmt "$root/usr/local/bin/gofmt"
fi

if [ -d "$root/usr/lib/python3/dist-packages/matplotlib" ]; then
	# The list of fonts, which else is made at each sandbox's first import.
	mkdir -p "$root/var/cache/matplotlib"
	in_root MPLCONFIGDIR=/var/cache/matplotlib MPLBACKEND=Agg python3 -c 'import matplotlib.font_manager'
	chmod 1777 "$root/var/cache/matplotlib"
fi

mkdir -p "$root/usr/share/sandbox"
dpkg-query --admindir="$root/var/lib/dpkg" -W -f '${Package} ${Version} ${Architecture}\n' >"$root/usr/share/sandbox/packages"

rm -rf "$root"/var/log/*.log "$root"/var/log/apt "$root"/var/cache/ldconfig/aux-cache "$root"/var/cache/debconf/*-old "$root"/var/lib/dpkg/*-old "$root"/root/.cache "$root"/root/.config
