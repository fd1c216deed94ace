#!/bin/sh
# Installs what the build and the tests need on Debian 12 (bookworm) and 13 (trixie), as root or
# through sudo. It lists what is missing first and, on a terminal, asks. Idempotent: a second run that finds
# everything changes nothing, prints nothing and needs no network.
#
#   scripts/setup.sh             packages and sources for the build
#   scripts/setup.sh --packages  the same, and what makes packages and images
#   scripts/setup.sh --packages-arm64  the same, and what makes them for arm64, on amd64
#   scripts/setup.sh --demo      packages and sources for the build, and the servers of scripts/demo.sh
#   scripts/setup.sh --core      the same as --demo, and what `make test` needs
#   scripts/setup.sh --tests     all of it, and the servers and tools that the tests use
#   scripts/setup.sh --arm64     all of it, and what builds for arm64 and runs the tests there, emulated
#
#   INSTALL=no scripts/setup.sh   lists what is missing, prints the commands that install it, and fails
#   INSTALL=yes scripts/setup.sh  does not ask
set -eu
cd "$(dirname "$0")/.."

with_core=no
with_tests=no
with_packages=no
with_servers=no
with_arm64=no
case ${1:-} in
--packages) with_packages=yes ;;
--packages-arm64) with_packages=yes with_arm64=yes ;;
--demo) with_servers=yes ;;
--core) with_core=yes with_servers=yes ;;
--tests) with_core=yes with_tests=yes with_packages=yes with_servers=yes ;;
--arm64) with_core=yes with_tests=yes with_packages=yes with_servers=yes with_arm64=yes ;;
esac

say() { # say SENTENCE...
    printf '%s\n' "$*" >&2
}
fail() { # fail SENTENCE...
    say "setup: $*"
    exit 1
}

here=$(dpkg --print-architecture 2>/dev/null || uname -m)
if [ $with_arm64 = yes ] && [ "$here" != amd64 ]; then
    fail "$1 is for amd64: on arm64, --packages and --tests are all of it"
fi
. /etc/os-release
is_debian=yes
codename=trixie
backports=
case ${ID:-}:${VERSION_ID:-} in
debian:12) codename=bookworm backports=bookworm-backports ;;
debian:13) ;;
*) is_debian=no ;;
esac

# The build, and curl, with which scripts/run.sh says to read the page. clang and LLVM 19 exist in both releases;
# their code for BPF does not change under us.
packages="cmake ninja-build g++ pkg-config curl patch xz-utils clang-19 llvm-19
    libelf-dev libcap-dev libseccomp-dev zlib1g-dev liblzma-dev libssl-dev libcurl4-openssl-dev libcrypt-dev prometheus-cpp-dev libyaml-cpp-dev
    libcli11-dev libprotozero-dev robin-map-dev libexpected-dev nlohmann-json3-dev libzycore-dev"
# What is too old in Debian 12, from its backports: its libbpf (1.1) has no uprobe.multi, its kernel headers are
# those of one architecture (exporter/symbols/names/syscall_table.cmake), and its Catch2 is version 2.
newer="libbpf-dev bpftool linux-libc-dev"
[ $with_packages = no ] || packages="$packages dpkg-dev file python3 binutils rpm umoci"
[ $with_servers = no ] || packages="$packages python3"
if [ $with_core = yes ]; then
    newer="$newer catch2"
    packages="$packages python3-yaml iproute2 util-linux procps libc6-dbg openssl systemd mandoc"
fi
if [ $with_tests = yes ]; then
    packages="$packages make ca-certificates clang-format-19 clang-tidy-19 libclang-rt-19-dev lintian rpmlint crun
        libbenchmark-dev chromium fonts-dejavu-core default-jdk-headless"
    # What makes the manifests from the chart, and checks them against Kubernetes' API.
    packages="$packages golang-go golang-github-masterminds-sprig-dev golang-k8s-sigs-yaml-dev python3-jsonschema"
    # What the benchmarks compare with, and a load of theirs.
    packages="$packages bpftrace libbpf-tools rt-tests"
fi
# The guests of tests/vm run kernels for amd64, emulated.
with_guests=no
if [ $with_tests = yes ] && [ "$here" = amd64 ]; then
    with_guests=yes
    packages="$packages cpio kmod"
    # While a guest's kernel patches its code, as it does for tracepoints, Debian 12's own QEMU (7.2) can run a
    # breakpoint that is not there any more, of which the kernel dies: fixed in 8.1 (QEMU commit deba78709a).
    # apt takes only named packages from backports, so its dependencies are named, too.
    newer="$newer qemu-system-x86 qemu-system-common qemu-system-data seabios"
    # A program for arm64, emulated and looked into (tests/arm64).
    packages="$packages g++-aarch64-linux-gnu qemu-user gdb-multiarch"
fi
if [ $with_arm64 = yes ]; then
    packages="$packages g++-aarch64-linux-gnu"
    [ $with_tests = no ] || newer="$newer qemu-system-arm" # of the same version as the other
fi

# shellcheck disable=SC2086 # the lists are words on purpose
installed=$(dpkg-query -W -f '${db:Status-Status} ${Package} ${Version}\n' $packages $newer 2>/dev/null |
    sed -n 's/^installed //p')
# shellcheck disable=SC2086
missing=$(printf '%s\n' $packages | sort -u | grep -vxF -e "$(echo "$installed" | cut -d ' ' -f 1)" | xargs)
missing_newer=
versions=
for package in $newer; do
    version=$(echo "$installed" | sed -n "s/^$package //p")
    case $package in
    libbpf-dev) least=1:1.4 ;;
    bpftool) least=7.5 ;;
    linux-libc-dev) least=6.12 ;;
    catch2) least=3 ;;
    qemu-*) least=1:8.1 ;;
    seabios) least=1.16.3 ;;
    esac
    if [ -z "$version" ] || dpkg --compare-versions "$version" lt "$least"; then
        if [ -n "$backports" ]; then missing_newer="$missing_newer $package/$backports"; else missing="$missing $package"; fi
        versions="$versions, $package ${least#*:} or later"
    fi
done

if [ "$(id -u)" -eq 0 ]; then as_root=; else as_root=sudo; fi
apt() {
    $as_root env DEBIAN_FRONTEND=noninteractive apt-get -q -y -o Dpkg::Use-Pty=0 -o DPkg::Lock::Timeout=300 \
        -o Acquire::Retries=3 "$@"
}
# The descriptions of packages, which the machine may want and this does not, are neither fetched nor removed.
update_machine() {
    apt update -o Acquire::Languages=none -o APT::Get::List-Cleanup=false ||
        say "setup: apt-get update failed for some sources: going on without them"
}

# Everything else goes into .deps/ of the checkout, not onto the machine. A private apt state makes
# another suite's packages readable without a line in the machine's own sources, and another architecture's.
root=$PWD
architecture=$here
suite_apt() { # suite_apt SUITE COMMAND ARGUMENT...: for $architecture. SUITE-sources has its source packages
    suite=${1%-sources}
    types=deb
    [ "$suite" = "$1" ] || types=deb-src
    state=$root/.deps/apt-$1
    [ "$architecture" = "$here" ] || state=$state-$architecture
    command=$2
    shift 2
    mkdir -p "$state/lists/partial" "$state/cache/archives/partial"
    sources=$(
        for source in "debian $suite" "debian-security $suite-security"; do
            case $source in *sid-security | *-backports-security) continue ;; esac
            printf 'Types: %s\nURIs: http://deb.debian.org/%s\nSuites: %s\nComponents: main\nSigned-By: %s\n\n' "$types" \
                "${source% *}" "${source#* }" /usr/share/keyrings/debian-archive-keyring.gpg
        done
    )
    # A file that is written again makes apt read all lists again.
    [ "$(cat "$state/suite.sources" 2>/dev/null)" = "$sources" ] || printf '%s\n' "$sources" >"$state/suite.sources"
    [ -f "$state/status" ] || : >"$state/status" # nothing is installed, as far as these are concerned
    # sid's lists are valid for a week, and a mirror may be older. Only tests use what is from there.
    checks_age=true
    [ "$suite" != sid ] || checks_age=false
    "$command" -q -o Acquire::Check-Valid-Until=$checks_age -o Acquire::Retries=3 -o Acquire::Languages=none -o APT::Sandbox::User=root \
        -o APT::Architecture="$architecture" -o APT::Architectures="$architecture" -o Dir::State::status="$state/status" \
        -o Dir::Etc::sourcelist=/dev/null -o Dir::Etc::sourceparts="$state" \
        -o Dir::State::Lists="$state/lists" -o Dir::Cache="$state/cache" "$@"
}
read_suites=
read_suite() { # read_suite SUITE: fetches its package lists, once in a run
    case " $read_suites " in *" $1/$architecture "*) return 0 ;; esac
    suite_apt "$1" apt-get update -o APT::Update::Error-Mode=any ||
        fail "cannot fetch the package lists of Debian ${1%-sources} from deb.debian.org"
    read_suites="$read_suites $1/$architecture"
}

# Source packages of trixie, which are built with the exporter: of civetweb some lines are changed
# (cmake/civetweb.patch), of the others Debian has no static library. NAME:UPSTREAM-VERSION:EXTENSION[:patched]
missing_sources=
for package in civetweb:1.16+dfsg:xz:patched fmtlib:10.1.1+ds1:gz spdlog:1.15.2+ds:xz zydis:4.1.1:gz; do
    [ -f ".deps/${package%%:*}/debian-version" ] || missing_sources="$missing_sources $package"
done
each_missing_source() { # each_missing_source FUNCTION: its arguments are the fields of a source package
    for package in $missing_sources; do
        IFS=:
        # shellcheck disable=SC2086
        set -- "$1" $package
        unset IFS
        "$@"
        set -- "$1"
    done
}
# Only the archives that are used: not every mirror has the .dsc of a superseded revision. apt checks them against the
# checksums of its signed index.
locate_source() {
    version=$(suite_apt trixie-sources apt-cache showsrc --only-source "$1" | sed -n 's/^Version: //p' |
        grep -F -- "$2-" | sort -V | tail -n 1)
    [ -n "$version" ] || fail "Debian trixie has no source package of $1 $2"
    echo "$version" >".deps/sources/$1.version"
    suite_apt trixie-sources apt-get source --print-uris --download-only "$1=$version" >.deps/sources/addresses 2>/dev/null
    for archive in "$1_$2.orig.tar.$3" ${4:+"$1_${version#*:}.debian.tar.xz"}; do
        sed -n "s|^'\([^']*\)' $archive [0-9]* \(SHA[0-9]*:.*\)|\1 .deps/sources/$archive \2|p" .deps/sources/addresses >>.deps/sources/wanted
    done
}
fetch_sources() { # into .deps/sources
    read_suite trixie-sources
    rm -rf .deps/sources
    mkdir -p .deps/sources
    each_missing_source locate_source
    # shellcheck disable=SC2046 # address, file and checksum of each
    suite_apt trixie-sources /usr/lib/apt/apt-helper download-file $(cat .deps/sources/wanted) ||
        fail "cannot fetch the source packages of Debian trixie from deb.debian.org"
}
unpack_source() {
    version=$(cat ".deps/sources/$1.version")
    folder=.deps/sources/$1
    mkdir "$folder"
    tar -xf ".deps/sources/$1_$2.orig.tar.$3" -C "$folder" --strip-components=1
    if [ -n "${4:-}" ]; then
        tar -xf ".deps/sources/$1_${version#*:}.debian.tar.xz" -C .deps/sources
        while read -r patch; do
            case $patch in '' | '#'*) continue ;; esac
            patch -d "$folder" -p1 --quiet <".deps/sources/debian/patches/${patch%% *}"
        done <.deps/sources/debian/patches/series
        rm -r .deps/sources/debian
    fi
    echo "$version" >"$folder/debian-version"
    rm -rf ".deps/$1"
    mv "$folder" ".deps/$1"
}

unpack() { # unpack DIRECTORY SUITE PACKAGE...
    directory=.deps/$1
    from=$2
    shift 2
    read_suite "$from"
    rm -rf "$directory.new"
    mkdir -p "$directory.new"
    (cd "$directory.new" && suite_apt "$from" apt-get download "$@" &&
        for archive in ./*.deb; do dpkg-deb -x "$archive" .; done && rm ./*.deb)
    rm -rf "$directory"
    mv "$directory.new" "$directory"
}
of_image() { # of_image PACKAGE...: into .deps/image, for $architecture
    read_suite bookworm
    rm -rf .deps/image.new
    mkdir -p .deps/image.new .deps/image
    (cd .deps/image.new && suite_apt bookworm apt-get download "$@")
    mv .deps/image.new/* .deps/image/
    rmdir .deps/image.new
}

newest_of() { # newest_of SUITE METAPACKAGE: the package of the newest version that it stands for
    suite_apt "$1" apt-cache show "$2" | sed -n 's/^Depends:.*\(linux-image-[0-9][^ ]*\) .*/\1/p' | head -n 1
}
guest_kernel() { # guest_kernel NAME SUITE FLAVOUR
    read_suite "$2"
    image=$(newest_of "$2" "linux-image-$3")
    [ -n "$image" ] || fail "Debian $2 has no kernel image $3"
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
    [ -f "$new/vmlinuz" ] || fail "no kernel in $image"
    /sbin/depmod -b "$new/root" "$release"
    echo "$release" >"$new/release"
    mv "$new" ".deps/vm/$1"
}
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
    read_suite "$codename"
    suite_apt "$codename" apt-get -o Dir::Cache::Archives="$PWD/$new/archives" -o Debug::NoLocking=1 \
        install --yes --no-install-recommends --download-only \
        libelf-dev libcap-dev libseccomp-dev zlib1g-dev liblzma-dev libssl-dev libcurl4-openssl-dev libcrypt-dev \
        prometheus-cpp-dev libyaml-cpp-dev libzycore-dev libcli11-dev libprotozero-dev robin-map-dev \
        libexpected-dev nlohmann-json3-dev g++ base-files bash dash coreutils findutils grep sed mawk procps iproute2 \
        util-linux mount
    rm "$new"/archives/linux-libc-dev_*
    from=${backports:-$codename}
    read_suite "$from"
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

part() { # part FILE WHAT FUNCTION ARGUMENT...: calls it unless .deps has FILE. While planning, it only lists WHAT
    # shellcheck disable=SC2086 # FILE may be a pattern
    ! ls -d .deps/$1 >/dev/null 2>&1 || return 0
    if [ $planning = yes ]; then
        to_unpack="$to_unpack
  $2"
        return 0
    fi
    echo "setup: unpacking from $2"
    shift 2
    "$@"
}
unpacked() { # unpacked DIRECTORY FILE SUITE PACKAGE...: unpacks the packages into .deps/DIRECTORY unless it has FILE
    into=$1
    file=$2
    suite=$3
    shift 3
    part "$into/$file" "$suite: $*" unpack "$into" "$suite" "$@"
}
guest() { # guest NAME SUITE FLAVOUR
    part "vm/$1/release" "$2: linux-image-$3" guest_kernel "$@"
}
parts() {
    # What is in the image besides the exporter: always of Debian 12, whatever this machine runs.
    [ $with_packages = no ] || part "image/libc6_*_$here.deb" "bookworm: ca-certificates libc6" of_image ca-certificates libc6
    # The demo and the tests run Debian's own Prometheus and Alertmanager. Their packages would start services, so
    # they are only unpacked. trixie moved promtool into a package of its own.
    promtool=promtool
    [ "$codename" != bookworm ] || promtool=
    [ $with_servers = no ] || unpacked tools usr/bin/amtool "$codename" prometheus prometheus-alertmanager $promtool
    if [ $with_tests = yes ]; then
        # Another release's C library, with which the program must run, too.
        unpacked libc-trixie . trixie libc6
        # The interpreters of both releases, whose functions profiles show.
        unpacked python-3.11 . bookworm python3.11-minimal libpython3.11-minimal libpython3.11-stdlib
        unpacked python-3.13 . trixie python3.13-minimal libpython3.13-minimal libpython3.13-stdlib
        # Allocators that programs use instead of the C library's.
        unpacked allocators . bookworm libjemalloc2 libtcmalloc-minimal4
        # What bench/scrape.py compares with.
        unpacked node-exporter usr/bin/prometheus-node-exporter "$codename" prometheus-node-exporter
        # Both releases have Prometheus 2. In Prometheus 3 a range leaves out its oldest end, so that rules can
        # mean something else there: the rules' tests run in promtool 3 too, which only sid has.
        unpacked tools-3 usr/bin/promtool sid promtool
        # Kubernetes' API as trixie's client describes it, for the chart's tests: bookworm's is too old to know
        # all that the chart uses.
        unpacked kubernetes usr trixie python3-kubernetes
        # Compose, version 2, which bookworm has not: it reads docker/compose.yaml without a Docker.
        unpacked compose usr trixie docker-compose
    fi
    if [ $with_guests = yes ]; then
        guest 6.1 bookworm amd64
        guest 6.12 bookworm-backports amd64
        guest newest sid amd64
    fi
    if [ $with_arm64 = yes ]; then
        architecture=arm64
        part arm64/root/usr/lib/aarch64-linux-gnu/liblzma.a "$codename${backports:+, $backports}: libraries and tools for arm64" unpack_arm64
        part "image/libc6_*_arm64.deb" "bookworm: libc6 for arm64" of_image libc6
    fi
    if [ $with_arm64 = yes ] && [ $with_tests = yes ]; then
        guest arm64-6.12 bookworm-backports arm64
        guest arm64-16k bookworm-backports arm64-16k
        guest arm64-newest sid arm64
    fi
    architecture=$here
}
to_unpack=
planning=yes
parts
planning=no
[ -n "$missing$missing_newer$missing_sources$to_unpack" ] || exit 0

# What is missing, from which suites. If apt has no package lists yet, it does not know the sizes.
list_words() { # list_words WORD...
    echo "$*" | fold -s -w 110 | sed 's/^/  /; s/ *$//' >&2
}
most="Up to 200 MB to download, and 900 MB on disk."
[ $with_tests = no ] || most="Up to 800 MB to download, and 3.5 GB on disk."
backports_file=/etc/apt/sources.list.d/gpusnoop-backports.list
backports_line="deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] http://deb.debian.org/debian $backports main"
if [ -z "$missing_newer" ] || apt-get indextargets --no-release-info --format "\$(RELEASE)" | grep -qx "$backports"; then
    backports_file=
fi
to_install="$missing$missing_newer"
if [ -n "$to_install" ] && [ $is_debian = no ]; then
    say "setup: ${PRETTY_NAME:-this system} is not Debian 12 or 13. Install by hand what these packages of Debian contain:"
    list_words "$missing"
    [ -z "$versions" ] || say "  with${versions#,}"
elif [ -n "$to_install" ]; then
    say "setup: these packages are missing:"
    [ -z "$missing" ] || list_words "$codename: $missing"
    [ -z "$missing_newer" ] || list_words "$backports:$(echo "$missing_newer" | sed "s,/$backports,,g")"
    [ -z "$backports_file" ] || say "  and $backports_file, which adds $backports to apt's sources"
    known=$to_install
    [ -z "$backports_file" ] || known=$missing
    # shellcheck disable=SC2086
    sizes=$(LC_ALL=C apt-get install --assume-no --no-install-recommends -o Debug::NoLocking=1 $known 2>/dev/null |
        sed -n '/^Need to get/{N; s/\n/ /p}')
    say "  ${sizes:-"$most"}"
fi
if [ -n "$missing_sources$to_unpack" ]; then
    say "setup: these are missing in .deps, where they are unpacked and not installed:"
    [ -z "$missing_sources" ] || list_words "trixie, as sources:$(echo "$missing_sources" | sed 's/:[^ ]*//g')"
    [ -z "$to_unpack" ] || say "${to_unpack#?}"
fi
[ -z "$to_install" ] || [ $is_debian = yes ] || exit 1

refuse() { # prints what installs it by hand
    say "setup: nothing is installed"
    if [ -n "$to_install" ]; then
        say "setup: as root, these commands install the packages:"
        [ -z "$backports_file" ] || say "  echo '$backports_line' >$backports_file"
        say "  apt-get update"
        say "  apt-get install --no-install-recommends $to_install"
    fi
    [ -z "$missing_sources$to_unpack" ] || say "setup: without INSTALL=no, $0${1:+ $1} unpacks the rest into .deps"
    exit 1
}
case ${INSTALL:-} in
no) refuse "$@" ;;
yes) ;;
*)
    if [ -n "$to_install" ] && [ -t 0 ] && [ -t 2 ]; then
        printf 'Install these packages? [Y/n] ' >&2
        read -r answer || answer=n
        case $answer in '' | [Yy]*) ;; *) refuse "$@" ;; esac
    fi
    ;;
esac

if [ -n "$to_install" ]; then
    if [ -n "$as_root" ] && ! command -v sudo >/dev/null; then
        fail "neither root nor sudo: run this as root"
    fi
    mkdir -p .deps
    # They arrive while the packages are installed.
    { [ -z "$missing_sources" ] || fetch_sources; } >.deps/sources.log 2>&1 &
    [ -z "$backports_file" ] || echo "$backports_line" | $as_root tee "$backports_file" >/dev/null
    update_machine
    # shellcheck disable=SC2086
    apt install --no-install-recommends $to_install || fail "apt-get cannot install the packages"
    wait $! || fail "cannot fetch the source packages: $(cat .deps/sources.log)"
    rm .deps/sources.log
elif [ -n "$missing_sources" ]; then
    fetch_sources
fi
each_missing_source unpack_source
rm -rf .deps/sources .deps/apt-trixie-sources
parts
