#!/bin/bash
# Looks at the rpm that packages_test.sh has made: rpmlint, what it needs, and what is in it.
#
#   rpm_test.sh BUILD-DIRECTORY [ARCHITECTURE]
set -euo pipefail
build=$1
arch=${2:-$(uname -m)}
fail() {
    echo "rpm_test: $*" >&2
    exit 1
}
package=$(echo "$build"/packages/gpusnoop-exporter-*."$arch".rpm)
[ -f "$package" ] || fail "no package for $arch in $build/packages"
rpmlint --config "$(dirname "$0")/rpmlint.toml" "$package" || fail "rpmlint found errors"

query() { rpm --dbpath "$(realpath "$build")/packages.rpmdb" -qp "$@" "$package"; }
[ "$(query --qf '%{ARCH}')" = "$arch" ] || fail "it is not for $arch"
diff <(cd "$build/packages" && dpkg-deb --fsys-tarfile gpusnoop-exporter_*.deb | tar -t | grep -v '/$' | sed 's/^\.//' | sort) \
    <(query --qf '[%{FILEMODES:perms} %{FILENAMES}\n]' | sed -n 's/^-[^ ]* //p' | sort) ||
    fail "it has other files than the Debian package"
needs=$(query --requires | grep -Ev '^(rpmlib\(|/bin/sh|shadow-utils|libc\.so\.6\(|libm\.so\.6\(|ld-linux-|rtld\(|config\()' || true)
[ -z "$needs" ] || fail "it needs more than the C library: $needs"
query --requires | grep -q '^libc\.so\.6(GLIBC_2\.34)' || fail "it does not say which C library it needs"
query --configfiles | grep -qx /etc/gpusnoop_exporter/config.yaml || fail "an upgrade would overwrite config.yaml"
echo "$(basename "$package"): complete and clean"
