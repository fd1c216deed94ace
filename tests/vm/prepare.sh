#!/bin/bash
# Makes what a guest boots from, build/vm/NAME/initrd.cpio: init.c, and the modules that reach the
# host's file tree and that the tests use; and for amd64 the test module for that kernel, gpusnoop_test.ko.
# Does nothing when these are newer than all they are made of.
#   tests/vm/prepare.sh NAME
set -euo pipefail
cd "$(dirname "$0")/../.."
kernel=.deps/vm/$1
made=build/vm/$1
release=$(cat "$kernel/release")
mkdir -p "$made"

make_test_module() {
    # The module, without the kernel's own build: its tools are programs of the kernel's Debian release,
    # which need not run here.
    headers=$PWD/$kernel/root/usr/src/linux-headers-$release
    common=$PWD/$kernel/root/usr/src/linux-headers-${release%-amd64}-common
    flags=(-nostdinc -isystem "$(gcc -print-file-name=include)")
    for folder in arch/x86/include arch/x86/include/generated include arch/x86/include/uapi \
        arch/x86/include/generated/uapi include/uapi include/generated/uapi; do
        for tree in "$common" "$headers"; do
            [ ! -d "$tree/$folder" ] || flags+=("-I$tree/$folder")
        done
    done
    flags+=(-include "$common/include/linux/kconfig.h" -include "$common/include/linux/compiler_types.h"
        -Itests/vm/module -D__KERNEL__ -DMODULE '-DKBUILD_BASENAME="gpusnoop_test"' '-DKBUILD_MODNAME="gpusnoop_test"'
        '-DKBUILD_MODFILE="gpusnoop_test"' -D__KBUILD_MODNAME=kmod_gpusnoop_test
        # As arch/x86/Makefile has them.
        -std=gnu11 -fms-extensions -O2 -m64 -mcmodel=kernel -fno-PIE -mno-red-zone -mno-sse -mno-mmx -mno-sse2
        -mno-3dnow -mno-avx -mno-80387 -mindirect-branch=thunk-extern -mindirect-branch-register
        -fno-jump-tables -fcf-protection=branch -fno-asynchronous-unwind-tables -fno-strict-aliasing
        -fno-common -fshort-wchar -fno-delete-null-pointer-checks -fno-stack-protector -fno-builtin
        # Functions begin with a call that the kernel makes a nop, which is where kprobes go.
        -pg -mfentry -mrecord-mcount -DCC_USING_FENTRY
        # The newest headers have attributes that this compiler does not know.
        -Wall -Werror -Wno-pointer-sign -Wno-main -Wno-attributes)
    for part in gpusnoop_test module_parts; do
        gcc "${flags[@]}" -c "tests/vm/module/$part.c" -o "$made/$part.o"
    done
    ld -r -m elf_x86_64 -z noexecstack -T "$headers/arch/x86/module.lds" -o "$made/gpusnoop_test.ko" \
        "$made/gpusnoop_test.o" "$made/module_parts.o"
}

# Tests of several guests may begin at once.
exec 9>"$made/lock"
flock 9
is_new=yes
for source in tests/vm/init.c tests/vm/prepare.sh tests/vm/module/*.[ch] "$kernel/release"; do
    [ "$made/initrd.cpio" -nt "$source" ] || is_new=no
done
[ $is_new = no ] || exit 0

compiler=gcc
modules=(virtio_pci 9pnet_virtio 9p vgem virtio-gpu loop kvm_amd)
case $1 in
arm64-*)
    compiler=aarch64-linux-gnu-gcc
    modules=(virtio_pci virtio_console 9pnet_virtio 9p loop)
    ;;
*) make_test_module ;;
esac

tree=$made/initrd
rm -rf "$tree"
mkdir -p "$tree/modules"
"$compiler" -O2 -static -Wall -Wextra -Werror -o "$tree/init" tests/vm/init.c
# In the order in which they need each other. What is built into the kernel is not a file.
/sbin/modprobe --dirname "$PWD/$kernel/root" --set-version "$release" --config /dev/null --show-depends --all \
    "${modules[@]}" | sed -n 's/^insmod \(.*[^ ]\) *$/\1/p' | awk '!seen[$0]++' |
    while read -r module; do
        name=$(basename "$module" .xz)
        case $module in *.xz) xz -dc "$module" ;; *) cat "$module" ;; esac >"$tree/modules/$name"
        echo "$name" >>"$tree/modules/list"
    done
(cd "$tree" && find . | cpio --quiet -o -H newc) >"$made/initrd.new"
mv "$made/initrd.new" "$made/initrd.cpio"
