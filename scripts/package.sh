#!/bin/bash
# Makes the files of a release from a build: the tarball, the packages, the debug information, the bill of
# materials and the checksums. The same build and commit give the same bytes.
#
#   scripts/package.sh BUILD-DIRECTORY OUTPUT-DIRECTORY     which can have those of other machines, too
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
case $(readelf -h "$build/gpusnoop_exporter" | sed -n 's/^ *Machine: *//p') in
*X86-64) arch=amd64 ;;
AArch64) arch=arm64 ;;
*) echo "package: $build/gpusnoop_exporter is for neither x86_64 nor arm64" >&2; exit 1 ;;
esac
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

# cpack finds out which C library the program needs by those that are installed. For another machine's program, dpkg's
# tool must be shown where that C library is, as if it had just been built.
options=()
if [ "$arch" != "$(dpkg --print-architecture)" ]; then
    mkdir -p "$work/needs/debian" "$work/needs/libc/DEBIAN"
    touch "$work/needs/debian/control"
    cp ".deps/$arch/root/var/lib/dpkg/info/libc6:$arch.symbols" "$work/needs/libc/DEBIAN/symbols"
    ln -s "$(realpath ".deps/$arch/root/lib")" "$work/needs/libc/lib"
    needs=$(cd "$work/needs" && DEB_HOST_ARCH=$arch dpkg-shlibdeps -Slibc -O "$build/gpusnoop_exporter" 2>"$work/log") || {
        cat "$work/log" >&2
        exit 1
    }
    options=(-D "CPACK_DEBIAN_PACKAGE_DEPENDS=${needs#*Depends=}, adduser")
fi
pack() { # pack GENERATOR
    cpack -G "$1" --config "$build/CPackConfig.cmake" -B "$work/packages/$1" "${options[@]}" >"$work/log.$1" 2>&1 || {
        tail -n 30 "$work/log.$1" >&2
        return 1
    }
}
pack DEB &
deb=$!
failed=0
pack RPM || failed=$?
wait "$deb" && [ "$failed" = 0 ] || exit 1
cp "$work"/packages/DEB/*.deb "$work"/packages/RPM/*.rpm "$out/"
(cd "$out" && sha256sum -- *.tar.gz *.deb *.rpm *.spdx.json >SHA256SUMS)
