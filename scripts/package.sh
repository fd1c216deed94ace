#!/bin/bash
# Makes the files of a release from a build: the tarball, the packages, the debug information, the bill of
# materials and the checksums. The same build and commit give the same bytes.
#
#   scripts/package.sh BUILD-DIRECTORY OUTPUT-DIRECTORY
set -euo pipefail
cd "$(dirname "$0")/.."
build=$(realpath "$1")
mkdir -p "$2"
out=$(realpath "$2")
umask 022
# The time of the commit, for everything that has a time.
SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct)}
export SOURCE_DATE_EPOCH TZ=UTC LC_ALL=C
version=$(sed -n 's/^project(gpusnoop_exporter VERSION \([0-9.]*\).*/\1/p' CMakeLists.txt)
case $(uname -m) in x86_64) arch=amd64 ;; aarch64) arch=arm64 ;; *) arch=$(uname -m) ;; esac
name=gpusnoop_exporter-$version.linux-$arch
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

archive() { # archive NAME: $work/NAME as $out/NAME.tar.gz
    tar -C "$work" --sort=name --mtime="@$SOURCE_DATE_EPOCH" --owner=0 --group=0 --numeric-owner -cf - "$1" | gzip -6n >"$out/$1.tar.gz"
}

scripts/sbom.py "$build" --licenses "$build/sbom/third-party-licenses" >"$out/$name.spdx.json"
gzip -9nf "$build/sbom/third-party-licenses"

mkdir -p "$work/$name"/{dashboards,rules,completions,man}
install -m 755 "$build/gpusnoop_exporter" "$work/$name/"
install -m 644 config.yaml LICENSE README.md packaging/copyright packaging/gpusnoop_exporter.service "$work/$name/"
install -m 644 "$build/sbom/third-party-licenses.gz" "$work/$name/"
install -m 644 dashboards/grafana/*.json "$work/$name/dashboards/"
install -m 644 dashboards/rules/*.yaml "$work/$name/rules/"
install -m 644 packaging/gpusnoop_exporter.8 "$work/$name/man/"
install -m 644 packaging/gpusnoop_exporter.bash "$work/$name/completions/gpusnoop_exporter"
archive "$name"

# gdb and perf look for it by the build's id.
id=$(readelf -n "$build/gpusnoop_exporter" | sed -n 's/.*Build ID: //p')
debug=$work/$name.debug/usr/lib/debug/.build-id/${id:0:2}
mkdir -p "$debug"
install -m 644 "$build/gpusnoop_exporter.debug" "$debug/${id:2}.debug"
archive "$name.debug"

for generator in DEB RPM; do
    cpack -G $generator --config "$build/CPackConfig.cmake" -B "$work/packages" >"$work/log" 2>&1 || {
        tail -n 30 "$work/log" >&2
        exit 1
    }
done
cp "$work"/packages/*.deb "$work"/packages/*.rpm "$out/"
(cd "$out" && sha256sum -- *.tar.gz *.deb *.rpm *.spdx.json >SHA256SUMS)
