#!/bin/sh
# Installs what the build and the tests need on Debian 12 (bookworm) and 13 (trixie), as root or
# through sudo. Idempotent: a second run that finds everything changes nothing and needs no network.
#
#   scripts/setup.sh             packages and sources for the build
#   scripts/setup.sh --packages  the same, and what makes packages and images
#   scripts/setup.sh --packages-arm64  the same, and what makes them for arm64, on amd64
#   scripts/setup.sh --demo      packages and sources for the build, and the servers of scripts/demo.sh
#   scripts/setup.sh --tests     all of it, and the servers and tools that the tests use
#   scripts/setup.sh --arm64     all of it, and what builds for arm64 and runs the tests there, emulated
set -eu
cd "$(dirname "$0")/.."

with_tests=no
with_packages=no
with_servers=no
with_arm64=no
case ${1:-} in
--packages) with_packages=yes ;;
--packages-arm64) with_packages=yes with_arm64=yes ;;
--demo) with_servers=yes ;;
--tests) with_tests=yes with_packages=yes with_servers=yes ;;
--arm64) with_tests=yes with_packages=yes with_servers=yes with_arm64=yes ;;
esac

if [ "$(id -u)" -eq 0 ]; then as_root=; else as_root=sudo; fi
if [ -n "$as_root" ] && ! command -v sudo >/dev/null; then
    echo "setup: neither root nor sudo: run this as root" >&2
    exit 1
fi
. /etc/os-release
case "${ID:-}:${VERSION_ID:-}" in
debian:12) backports=bookworm-backports ;;
debian:13) backports= ;;
*)
    echo "setup: ${PRETTY_NAME:-this system} is not Debian 12 or 13: install the packages named in $0 by hand" >&2
    exit 1
    ;;
esac

# clang and LLVM 19 exist in both releases; their code for BPF does not change under us.
packages="make cmake ninja-build g++ pkg-config ca-certificates curl patch xz-utils
    clang-19 llvm-19 linux-libc-dev
    libelf-dev libcap-dev libseccomp-dev zlib1g-dev libssl-dev libcurl4-openssl-dev libcrypt-dev prometheus-cpp-dev libyaml-cpp-dev
    libcli11-dev libprotozero-dev dpkg-dev file robin-map-dev libexpected-dev nlohmann-json3-dev libzycore-dev"
# What Debian 12 has too old, of its backports: its libbpf (1.1) has no uprobe.multi, and its Catch2 is version 2.
newer="libbpf-dev bpftool catch2"
[ $with_packages = no ] || packages="$packages python3 binutils rpm umoci"
[ $with_servers = no ] || packages="$packages python3"
[ $with_tests = no ] || packages="$packages clang-format-19 clang-tidy-19 libclang-rt-19-dev python3 python3-yaml
    iproute2 util-linux procps libc6-dbg openssl systemd mandoc lintian rpmlint crun
    libbenchmark-dev chromium fonts-dejavu-core default-jdk-headless"
# What makes the manifests from the chart, and holds them against Kubernetes' API.
[ $with_tests = no ] || packages="$packages golang-go golang-github-masterminds-sprig-dev golang-k8s-sigs-yaml-dev
    python3-jsonschema"
# What the benchmarks compare with, and a load of theirs.
[ $with_tests = no ] || packages="$packages bpftrace libbpf-tools rt-tests"
# The guests of tests/vm run kernels for amd64, emulated.
with_guests=no
if [ $with_tests = yes ] && [ "$(dpkg --print-architecture)" = amd64 ]; then
    with_guests=yes
    packages="$packages cpio kmod"
    # While a guest's kernel patches its code, as it does for tracepoints, Debian 12's own QEMU (7.2) can run a
    # breakpoint that is not there any more, of which the kernel dies: fixed in 8.1 (QEMU commit deba78709a).
    newer="$newer qemu-system-x86"
    # A program for arm64, emulated and looked into (tests/arm64).
    packages="$packages g++-aarch64-linux-gnu qemu-user gdb-multiarch"
fi
if [ $with_arm64 = yes ]; then
    if [ "$(dpkg --print-architecture)" != amd64 ]; then
        echo "setup: $1 is for amd64: on arm64, --packages and --tests are all of it" >&2
        exit 1
    fi
    packages="$packages g++-aarch64-linux-gnu"
    [ $with_tests = no ] || newer="$newer qemu-system-arm" # of the same version as the other
fi

missing=
for package in $packages; do
    dpkg-query -W -f='${Status}' "$package" 2>/dev/null | grep -q 'ok installed' || missing="$missing $package"
done
missing_newer=
for package in $newer; do
    version=$(dpkg-query -W -f='${Status} ${Version}' "$package" 2>/dev/null | sed -n 's/^install ok installed //p')
    case $package in libbpf-dev) least=1:1.4 ;; bpftool) least=7.5 ;; catch2) least=3 ;; qemu-*) least=1:8.1 ;; esac
    if [ -z "$version" ] || dpkg --compare-versions "$version" lt "$least"; then
        missing_newer="$missing_newer $package"
    fi
done

apt() {
    $as_root env DEBIAN_FRONTEND=noninteractive apt-get -q -y -o Dpkg::Use-Pty=0 -o Acquire::Retries=3 "$@"
}
if [ -n "$missing$missing_newer" ]; then
    echo "setup: installing$missing$missing_newer"
    if [ -n "$backports" ] && ! apt-cache policy | grep -q "a=$backports\|n=$backports"; then
        printf 'Types: deb\nURIs: http://deb.debian.org/debian\nSuites: %s\nComponents: main\nSigned-By: /usr/share/keyrings/debian-archive-keyring.gpg\n' \
            "$backports" | $as_root tee /etc/apt/sources.list.d/gpusnoop-backports.sources >/dev/null
    fi
    apt update
    # shellcheck disable=SC2086 # the lists are words on purpose
    [ -z "$missing" ] || apt install --no-install-recommends $missing
    # shellcheck disable=SC2086
    [ -z "$missing_newer" ] || apt install --no-install-recommends ${backports:+-t "$backports"} $missing_newer
fi

# What follows goes into .deps/ of the checkout, not onto the machine. A private apt state makes
# another suite's packages readable without a line in the machine's own sources, and another architecture's.
root=$PWD
architecture=$(dpkg --print-architecture)
suite_apt() { # suite_apt SUITE COMMAND ARGUMENT...: for $architecture
    state=$root/.deps/apt-$1
    [ "$architecture" = "$(dpkg --print-architecture)" ] || state=$state-$architecture
    command=$2
    mkdir -p "$state"
    : >"$state/status" # nothing is installed, as far as these are concerned
    if [ ! -f "$state/suite.sources" ]; then
        mkdir -p "$state/lists/partial" "$state/cache/archives/partial"
        : >"$state/suite.sources"
        for source in "debian $1" "debian-security $1-security"; do
            case $source in *sid-security | *-backports-security) continue ;; esac
            printf 'Types: deb deb-src\nURIs: http://deb.debian.org/%s\nSuites: %s\nComponents: main\nSigned-By: /usr/share/keyrings/debian-archive-keyring.gpg\n\n' \
                "${source% *}" "${source#* }" >>"$state/suite.sources"
        done
    fi
    shift 2
    "$command" -q -o Acquire::Retries=3 -o APT::Sandbox::User=root \
        -o APT::Architecture="$architecture" -o APT::Architectures="$architecture" -o Dir::State::status="$state/status" \
        -o Dir::Etc::sourcelist=/dev/null -o Dir::Etc::sourceparts="$state" \
        -o Dir::State::Lists="$state/lists" -o Dir::Cache="$state/cache" "$@"
}

# Source packages of trixie, which are built with the exporter: of civetweb some lines are changed
# (exporter/http/civetweb_hooks.h), of the others Debian has no static library. Not every mirror has the .dsc
# of a superseded revision, and it is not needed: the archives are checked here against the checksums of
# apt's signed index.
source_package() { # source_package DIRECTORY SOURCE UPSTREAM-VERSION EXTENSION [patched]: into .deps/DIRECTORY
    [ ! -f ".deps/$1/debian-version" ] || return 0
    echo "setup: fetching the source package $2"
    fetched=.deps/$1-source
    rm -rf ".deps/$1" "$fetched"
    mkdir -p "$fetched/unpacked"
    suite_apt trixie apt-get update
    suite_apt trixie apt-cache showsrc "$2" >"$fetched/record"
    version=$(sed -n 's/^Version: //p' "$fetched/record" | grep -F -- "$3-" | sort -V | tail -n 1)
    if [ -z "$version" ]; then
        echo "setup: Debian trixie has no source package of $2 $3" >&2
        exit 1
    fi
    (cd "$fetched" && suite_apt trixie apt-get source --download-only "$2=$version") || true
    archives=$2_$3.orig.tar.$4
    [ -z "${5:-}" ] || archives="$archives $2_${version#*:}.debian.tar.xz"
    for archive in $archives; do
        sum=$(sed -n "/^Checksums-Sha256:/,/^[^ ]/s/^ \([0-9a-f]\{64\}\) [0-9]* $archive\$/\1/p" "$fetched/record" | head -n 1)
        if ! echo "$sum  $fetched/$archive" | sha256sum --check --quiet; then
            echo "setup: cannot fetch the source archive $archive" >&2
            exit 1
        fi
    done
    tar -xf "$fetched/$2_$3.orig.tar.$4" -C "$fetched/unpacked" --strip-components=1
    if [ -n "${5:-}" ]; then
        tar -xf "$fetched/$2_${version#*:}.debian.tar.xz" -C "$fetched"
        while read -r patch; do
            case $patch in '' | '#'*) continue ;; esac
            patch -d "$fetched/unpacked" -p1 --quiet <"$fetched/debian/patches/${patch%% *}"
        done <"$fetched/debian/patches/series"
    fi
    echo "$version" >"$fetched/unpacked/debian-version"
    mv "$fetched/unpacked" ".deps/$1"
}
source_package civetweb civetweb 1.16+dfsg xz patched
source_package fmtlib fmtlib 10.1.1+ds1 gz
source_package spdlog spdlog 1.15.2+ds xz
source_package zydis zydis 4.1.1 gz

unpack_tools() { # unpack_tools DIRECTORY COMMAND PACKAGE...: what `COMMAND download PACKAGE...` fetches
    tools=$1
    fetch=$2
    shift 2
    rm -rf "$tools.new"
    mkdir -p "$tools.new"
    # shellcheck disable=SC2086
    (cd "$tools.new" && $fetch download "$@" &&
        for archive in ./*.deb; do dpkg-deb -x "$archive" .; done && rm ./*.deb)
    rm -rf "$tools"
    mv "$tools.new" "$tools"
}

# The system calls of both machines, in sid's headers of the newest kernel: those of the system may be older than
# the kernels that the exporter runs on. exporter/symbols/names/syscall_table.cmake reads them.
if [ ! -d .deps/kernel-headers/usr ]; then
    echo "setup: unpacking the newest kernel headers"
    suite_apt sid apt-get update
    unpack_tools .deps/kernel-headers "suite_apt sid apt-get" linux-libc-dev
fi

# What is in the image besides the exporter: always of Debian 12, whatever this machine runs.
of_image() { # of_image PACKAGE...: into .deps/image, for $architecture
    echo "setup: fetching $* for the image"
    suite_apt bookworm apt-get update
    rm -rf .deps/image.new
    mkdir -p .deps/image.new .deps/image
    (cd .deps/image.new && suite_apt bookworm apt-get download "$@")
    mv .deps/image.new/* .deps/image/
    rmdir .deps/image.new
}
if [ $with_packages = yes ] && ! ls .deps/image/libc6_*_"$architecture".deb >/dev/null 2>&1; then
    of_image ca-certificates libc6
fi

# Another release's C library, with which the program must run, too.
if [ $with_tests = yes ] && [ ! -d .deps/libc-trixie ]; then
    echo "setup: unpacking another C library for the tests"
    suite_apt trixie apt-get update
    unpack_tools .deps/libc-trixie "suite_apt trixie apt-get" libc6
fi

# The interpreters of both releases, whose functions profiles show.
unpack_python() { # unpack_python VERSION SUITE
    [ ! -d ".deps/python-$1" ] || return 0
    echo "setup: unpacking Python $1 for the tests"
    suite_apt "$2" apt-get update
    unpack_tools ".deps/python-$1" "suite_apt $2 apt-get" "python$1-minimal" "libpython$1-minimal" "libpython$1-stdlib"
}
if [ $with_tests = yes ]; then
    unpack_python 3.11 bookworm
    unpack_python 3.13 trixie
fi

# Allocators that programs use instead of the C library's.
if [ $with_tests = yes ] && [ ! -d .deps/allocators ]; then
    echo "setup: unpacking jemalloc and tcmalloc for the tests"
    suite_apt bookworm apt-get update
    unpack_tools .deps/allocators "suite_apt bookworm apt-get" libjemalloc2 libtcmalloc-minimal4
fi

# The demo and the tests run Debian's own Prometheus and Alertmanager. Their packages would start services, so
# they are only unpacked.
if [ $with_servers = yes ] && [ ! -x .deps/tools/usr/bin/amtool ]; then
    echo "setup: unpacking Prometheus and Alertmanager"
    # trixie moved promtool into a package of its own.
    wanted="prometheus prometheus-alertmanager"
    ! apt-cache show promtool >/dev/null 2>&1 || wanted="$wanted promtool"
    # shellcheck disable=SC2086
    unpack_tools .deps/tools "apt-get -q -o APT::Sandbox::User=root" $wanted
fi
# What bench/scrape.py compares with.
if [ $with_tests = yes ] && [ ! -x .deps/node-exporter/usr/bin/prometheus-node-exporter ]; then
    echo "setup: unpacking node_exporter for the benchmarks"
    unpack_tools .deps/node-exporter "apt-get -q -o APT::Sandbox::User=root" prometheus-node-exporter
fi
# Both releases have Prometheus 2. In Prometheus 3 a range leaves out its oldest end, so that rules can
# mean something else there: the rules' tests run in promtool 3 too, which only sid has.
if [ $with_tests = yes ] && [ ! -x .deps/tools-3/usr/bin/promtool ]; then
    echo "setup: unpacking promtool 3 for the tests"
    suite_apt sid apt-get update
    unpack_tools .deps/tools-3 "suite_apt sid apt-get" promtool
fi

# Kubernetes' API as trixie's client describes it, for the chart's tests: bookworm's is too old to know
# all that the chart uses.
if [ $with_tests = yes ] && [ ! -d .deps/kubernetes/usr ]; then
    echo "setup: unpacking the description of Kubernetes' API for the tests"
    suite_apt trixie apt-get update
    unpack_tools .deps/kubernetes "suite_apt trixie apt-get" python3-kubernetes
fi

# Compose, version 2, which bookworm has not: it reads docker/compose.yaml without a Docker.
if [ $with_tests = yes ] && [ ! -d .deps/compose/usr ]; then
    echo "setup: unpacking docker-compose for the tests"
    suite_apt trixie apt-get update
    unpack_tools .deps/compose "suite_apt trixie apt-get" docker-compose
fi

# The kernels of the guests in tests/vm: the image, its modules, and the headers that the test module
# is built with, unpacked into .deps/vm/NAME. Once there, a kernel stays as it is.
newest_of() { # newest_of SUITE METAPACKAGE: the package of the newest version that it stands for
    suite_apt "$1" apt-cache show "$2" | sed -n 's/^Depends:.*\(linux-image-[0-9][^ ]*\) .*/\1/p' | head -n 1
}
guest_kernel() { # guest_kernel NAME SUITE FLAVOUR
    [ ! -f ".deps/vm/$1/release" ] || return 0
    echo "setup: fetching kernel $1 of Debian $2 for the guests of the tests"
    suite_apt "$2" apt-get update
    image=$(newest_of "$2" "linux-image-$3")
    if [ -z "$image" ]; then
        echo "setup: Debian $2 has no kernel image $3" >&2
        exit 1
    fi
    release=${image#linux-image-}
    wanted=$image
    [ "$3" != amd64 ] || wanted="$wanted linux-headers-$release linux-headers-${release%-amd64}-common"
    # sid's image is a package that needs these others.
    for part in base binary modules; do
        ! suite_apt "$2" apt-cache show "linux-$part-$release" >/dev/null 2>&1 || wanted="$wanted linux-$part-$release"
    done
    new=.deps/vm/$1.new
    rm -rf "$new" ".deps/vm/$1"
    mkdir -p "$new/root"
    # shellcheck disable=SC2086
    (cd "$new" && suite_apt "$2" apt-get download $wanted &&
        for archive in ./*.deb; do dpkg-deb -x "$archive" root; done && rm ./*.deb)
    # Debian's packages have been moving from /lib and /boot to /usr/lib/modules.
    [ -e "$new/root/lib" ] || ln -s usr/lib "$new/root/lib"
    for kernel in "$new/root/boot/vmlinuz-$release" "$new/root/lib/modules/$release/vmlinuz"; do
        [ ! -f "$kernel" ] || cp "$kernel" "$new/vmlinuz"
    done
    [ -f "$new/vmlinuz" ] || { echo "setup: no kernel in $image" >&2; exit 1; }
    /sbin/depmod -b "$new/root" "$release"
    echo "$release" >"$new/release"
    mv "$new" ".deps/vm/$1"
}
if [ $with_guests = yes ]; then
    guest_kernel 6.1 bookworm amd64
    guest_kernel 6.12 bookworm-backports amd64
    guest_kernel newest sid amd64
fi

# What the exporter and its tests for arm64 are built with and run on (cmake/arm64.cmake), of this Debian
# release: its libraries in .deps/arm64/root, which is also the root file system of the guests for arm64, and
# the kernel's headers beside it. The root's database of dpkg says which package has which file of both.
record() { # record ARCHIVE ROOT: as dpkg does when it installs
    info=$2/var/lib/dpkg/info
    recorded=$info/$(dpkg-deb -f "$1" Package)
    [ "$(dpkg-deb -f "$1" Multi-Arch)" != same ] || recorded=$recorded:$architecture
    mkdir -p "$info"
    echo 1 >"$info/format"
    dpkg-deb --fsys-tarfile "$1" | tar -t | sed 's,^\.,,; s,/$,,; s,^$,/.,' >"$recorded.list"
    if dpkg-deb --info "$1" symbols >/dev/null 2>&1; then dpkg-deb --info "$1" symbols >"$recorded.symbols"; fi
    { dpkg-deb -f "$1" && printf 'Status: install ok installed\n\n'; } >>"$2/var/lib/dpkg/status"
}
unpack_arm64() {
    new=.deps/arm64.new
    rm -rf "$new"
    mkdir -p "$new/root" "$new/linux" "$new/archives/partial"
    suite_apt "$VERSION_CODENAME" apt-get update
    suite_apt "$VERSION_CODENAME" apt-get -o Dir::Cache::Archives="$PWD/$new/archives" -o Debug::NoLocking=1 \
        install --yes --no-install-recommends --download-only \
        libelf-dev libcap-dev libseccomp-dev zlib1g-dev libssl-dev libcurl4-openssl-dev libcrypt-dev \
        prometheus-cpp-dev libyaml-cpp-dev libzycore-dev libcli11-dev libprotozero-dev robin-map-dev \
        libexpected-dev nlohmann-json3-dev g++ base-files bash dash coreutils findutils grep sed mawk procps iproute2 \
        util-linux mount
    rm "$new"/archives/linux-libc-dev_*
    from=${backports:-$VERSION_CODENAME}
    suite_apt "$from" apt-get update
    (cd "$new/archives" && suite_apt "$from" apt-get download libbpf-dev libcatch2-dev linux-libc-dev)
    for archive in "$new"/archives/*.deb; do
        into=$new/root
        case $archive in */linux-libc-dev_*) into=$new/linux ;; esac
        dpkg-deb -x "$archive" "$into"
        record "$archive" "$new/root"
    done
    rm -r "$new/archives"
    rm -rf .deps/arm64
    mv "$new" .deps/arm64
}
if [ $with_arm64 = yes ]; then
    architecture=arm64
    [ -f .deps/arm64/root/var/lib/dpkg/status ] || { echo "setup: unpacking packages for arm64"; unpack_arm64; }
    ls .deps/image/libc6_*_arm64.deb >/dev/null 2>&1 || of_image libc6
fi
if [ $with_arm64 = yes ] && [ $with_tests = yes ]; then
    guest_kernel arm64-6.12 bookworm-backports arm64
    guest_kernel arm64-16k bookworm-backports arm64-16k
    guest_kernel arm64-newest sid arm64
fi
