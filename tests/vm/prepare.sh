#!/bin/bash
# Makes what a guest boots from: build/vm/NAME/initrd.cpio, with init.c, and the modules that reach
# the host's file tree and that the tests use. Does nothing when that is newer than all it is made of.
#   tests/vm/prepare.sh NAME
set -euo pipefail
cd "$(dirname "$0")/../.."
kernel=.deps/vm/$1
made=build/vm/$1
release=$(cat "$kernel/release")
mkdir -p "$made"

# Tests of several guests may begin at once.
exec 9>"$made/lock"
flock 9
if [ "$made/initrd.cpio" -nt tests/vm/init.c ] && [ "$made/initrd.cpio" -nt tests/vm/prepare.sh ] &&
    [ "$made/initrd.cpio" -nt "$kernel/release" ]; then
    exit 0
fi

tree=$made/initrd
rm -rf "$tree"
mkdir -p "$tree/modules"
gcc -O2 -static -Wall -Wextra -Werror -o "$tree/init" tests/vm/init.c
# In the order in which they need each other. What is built into the kernel is not a file.
/sbin/modprobe --dirname "$PWD/$kernel/root" --set-version "$release" --config /dev/null --show-depends --all \
    virtio_pci 9pnet_virtio 9p vgem | sed -n 's/^insmod \(.*[^ ]\) *$/\1/p' | awk '!seen[$0]++' |
    while read -r module; do
        name=$(basename "$module" .xz)
        case $module in *.xz) xz -dc "$module" ;; *) cat "$module" ;; esac >"$tree/modules/$name"
        echo "$name" >>"$tree/modules/list"
    done
(cd "$tree" && find . | cpio --quiet -o -H newc) >"$made/initrd.new"
mv "$made/initrd.new" "$made/initrd.cpio"
