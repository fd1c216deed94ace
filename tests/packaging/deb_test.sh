#!/bin/bash
# Looks at the Debian package that packages_test.sh has made: lintian, and what is in it.
#
#   deb_test.sh BUILD-DIRECTORY [ARCHITECTURE]
set -euo pipefail
build=$1
arch=${2:-$(dpkg --print-architecture)}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
fail() {
    echo "deb_test: $*" >&2
    exit 1
}

package=$(echo "$build"/packages/gpusnoop-exporter_*_"$arch".deb)
[ -f "$package" ] || fail "no package for $arch in $build/packages"
[ "$(dpkg-deb -f "$package" Architecture)" = "$arch" ] || fail "it is not for $arch"

# Libraries are in the program on purpose: it runs on other distributions.
lintian --allow-root --fail-on error --suppress-tags embedded-library "$package" || fail "lintian found errors"

dpkg-deb -x "$package" "$work/root"
dpkg-deb -e "$package" "$work/control"
for file in usr/bin/gpusnoop_exporter etc/gpusnoop_exporter/config.yaml etc/default/gpusnoop_exporter \
    usr/lib/systemd/system/gpusnoop_exporter.service usr/share/man/man8/gpusnoop_exporter.8.gz \
    usr/share/bash-completion/completions/gpusnoop_exporter usr/share/doc/gpusnoop-exporter/copyright \
    usr/share/doc/gpusnoop-exporter/README.md usr/share/doc/gpusnoop-exporter/docs/metrics.md; do
    [ -s "$work/root/$file" ] || fail "$file is not in the package"
done
for file in etc/gpusnoop_exporter/config.yaml etc/default/gpusnoop_exporter; do
    grep -qx "/$file" "$work/control/conffiles" || fail "$file would be overwritten by an upgrade"
done
depends=$(sed -n 's/^Depends: //p' "$work/control/control" | tr -d ' ' | tr ',' '\n' | sort | tr '\n' ' ')
[[ $depends =~ ^adduser\ libc6\(\>=[0-9.]+\)\ $ ]] || fail "it depends on $depends, not only on the C library and adduser"
grep -q '^Recommends:.*libcurl4' "$work/control/control" || fail "it does not recommend libcurl, which top loads"
others=$(cd "$work/root" && find . \( -name '*.py' -o -name '*.in' -o -name 'CMake*' -o -name tests -o -name '*.debug' \))
[ -z "$others" ] || fail "these are for the build: $others"
for script in postinst prerm postrm; do
    sh -n "$work/control/$script" || fail "$script is no shell script"
done

# The unit starts what is in the package, as the user that the package makes.
unit=$work/root/usr/lib/systemd/system/gpusnoop_exporter.service
start=$(sed -n 's/^ExecStart=//p' "$unit")
[ -x "$work/root${start%% *}" ] || fail "the unit starts ${start%% *}, which is not in the package"
config=$(sed 's/.*--config.file=\([^ ]*\).*/\1/' <<<"$start")
[ -f "$work/root$config" ] || fail "the unit reads $config, which is not in the package"
grep -q "adduser .* $(sed -n 's/^User=//p' "$unit")\$" <(tr -d '\\' <"$work/control/postinst" | tr '\n' ' ' | sed 's/ fi .*//;s/ *$//') ||
    fail "the package does not make the unit's user"

cmp "$work/root/usr/bin/gpusnoop_exporter" "$build/gpusnoop_exporter" || fail "the package's program is not the tested one"
echo "$(basename "$package"): complete and clean"
