#!/bin/bash
# Makes the files of a release twice, which must be the same, and leaves them in BUILD-DIRECTORY/packages for
# the other tests.
#
#   packages_test.sh BUILD-DIRECTORY [ARCHITECTURE EMULATOR...]     of a build for another machine: how it runs here
set -euo pipefail
cd "$(dirname "$0")/../.."
build=$1
arch=${2:-$(dpkg --print-architecture)}
emulator=("${@:3}")
again=$(mktemp -d)
trap 'rm -rf "$again"' EXIT
fail() {
    echo "packages_test: $*" >&2
    exit 1
}
rm -rf "$build/packages"
scripts/package.sh "$build" "$build/packages"
scripts/package.sh "$build" "$again"
diff -r "$build/packages" "$again" || fail "two runs have made different files"
cd "$build/packages"
sha256sum --check --quiet SHA256SUMS || fail "the checksums are wrong"

tarball=$(echo gpusnoop_exporter-*.linux-"$arch".tar.gz)
name=${tarball%.tar.gz}
tar -xzf "$tarball" -C "$again"
for file in gpusnoop_exporter config.yaml gpusnoop_exporter.service LICENSE copyright README.md third-party-licenses.gz \
    dashboards/gpusnoop-overview.json rules/gpusnoop_memory.yaml man/gpusnoop_exporter.8 completions/gpusnoop_exporter; do
    [ -s "$again/$name/$file" ] || fail "$file is not in the tarball"
done
# Unchanged, it works where it was unpacked.
"${emulator[@]}" "$again/$name/gpusnoop_exporter" --version
"${emulator[@]}" "$again/$name/gpusnoop_exporter" check-config --config.file="$again/$name/config.yaml" >/dev/null
cmp "$again/$name/gpusnoop_exporter" "$build/gpusnoop_exporter" || fail "the tarball's program is not the tested one"

# The debug information is that of this program.
tar -xzf "$name.debug.tar.gz" -C "$again"
id=$(readelf -n "$build/gpusnoop_exporter" | sed -n 's/.*Build ID: //p')
debug=$again/$name.debug/usr/lib/debug/.build-id/${id:0:2}/${id:2}.debug
[ "$(readelf -n "$debug" 2>/dev/null | sed -n 's/.*Build ID: //p')" = "$id" ] || fail "there is no debug information of $id"

# Nothing says where it was built, or where another machine's headers were.
"${OBJCOPY:-objcopy}" --decompress-debug-sections "$debug" "$again/debug"
for place in "$(realpath "$build/../..")" "$(realpath .deps)"; do
    ! grep -aqF "$place" "$build/gpusnoop_exporter" "$again/debug" || fail "the program has the path $place in it"
done

python3 - "$name.spdx.json" <<'END'
import json, sys
document = json.load(open(sys.argv[1], encoding="utf-8"))
names = {package["name"] for package in document["packages"]}
missing = {"gpusnoop_exporter", "libbpf-dev", "libelf-dev", "libssl-dev", "libcap-dev", "libseccomp-dev", "zlib1g-dev", "liblzma-dev",
           "libyaml-cpp-dev", "libcrypt-dev", "civetweb", "fmtlib", "spdlog", "zydis", "libcli11-dev"} - names
if missing or not any(name.startswith("libstdc++-") for name in names) or not any(name.startswith("libgcc-") for name in names):
    sys.exit(f"packages_test: the bill of materials lacks {missing}, or the compiler's libraries: {names}")
END
ls -l
