#!/bin/bash
# Runs the tests of one kernel, or a command, in a guest: an emulated machine with the host's file
# tree, read-only, or for arm64 with that of .deps/arm64 and this checkout. See tests/vm/README.md.
#
#   scripts/vm.sh KERNEL                    the tests of tests/vm/suite.sh
#   scripts/vm.sh KERNEL COMMAND [WORD...]  that command, in the folder build/release, or build/arm64
#
# KERNEL is 6.1, 6.12 or newest. Or it is arm64-6.12,
# arm64-newest, or arm64-16k: 6.12 with pages of 16 KiB. The guest is given SECONDS_LIMIT seconds (300).
set -euo pipefail
cd "$(dirname "$0")/.."
if [ $# -lt 1 ]; then
    sed -n '2,/^$/s/^# \{0,1\}//p;/^# KERNEL/p' "$0" >&2
    exit 2
fi
name=$1
shift
limit=${SECONDS_LIMIT:-300}
boot_limit=120
kernel=.deps/vm/$name
if [ ! -f "$kernel/release" ]; then
    echo "vm: there is no kernel \"$name\" in .deps/vm: run scripts/setup.sh --tests, or --arm64" >&2
    exit 2
fi
case $PWD/ in /tmp/* | /run/* | /var/tmp/*)
    echo "vm: guests have a /tmp, /run and /var/tmp of their own, so they do not see a checkout there" >&2
    exit 2
    ;;
esac
build=build/release
case $name in arm64-*) build=build/arm64 boot_limit=180 ;; esac

tests/vm/prepare.sh "$name"
run=$(mktemp -d)
guest=
end() {
    [ -z "$guest" ] || kill -KILL "$guest" 2>/dev/null || true
    rm -rf "$run"
}
trap end EXIT
trap 'exit 143' TERM INT

# The command is its own archive behind the initrd's: the kernel unpacks them all.
if [ $# -eq 0 ]; then set -- "$PWD/tests/vm/suite.sh" "$name"; fi
mkdir "$run/archive"
{
    echo 'ip link set lo up'
    echo "export GPUSNOOP_VM=$name GPUSNOOP_TEST_MODULE=$PWD/build/vm/$name/gpusnoop_test.ko"
    printf 'cd %q\n' "$PWD/$build"
    printf '%q ' "$@"
} >"$run/archive/command"
(cd "$run/archive" && echo command | cpio --quiet -o -H newc) | cat "build/vm/$name/initrd.cpio" - >"$run/initrd"

# Emulated only: KVM inside of a virtual machine is not to be relied on.
boot() {
    : >"$run/output"
    case $name in arm64-*) boot_arm64 ;; *) boot_amd64 ;; esac </dev/null &
    guest=$!
}

# A display controller and a "bridge, other" (PIIX4's power management) are there for the PCI probe. Each
# CPU is a NUMA node.
boot_amd64() {
    exec setpriv --pdeathsig KILL qemu-system-x86_64 -accel tcg,thread=multi -cpu max -machine pc -smp 2 -m 2048 \
        -object memory-backend-ram,id=memory0,size=1G -numa node,nodeid=0,cpus=0,memdev=memory0 \
        -object memory-backend-ram,id=memory1,size=1G -numa node,nodeid=1,cpus=1,memdev=memory1 \
        -nodefaults -display none -no-reboot -kernel "$kernel/vmlinuz" -initrd "$run/initrd" \
        -append "console=ttyS0 loglevel=4 panic=-1 mitigations=off" \
        -serial "file:$run/console" -serial "file:$run/output" \
        -fsdev local,id=hostroot,path=/,security_model=none,readonly=on,multidevs=remap \
        -device virtio-9p-pci,fsdev=hostroot,mount_tag=hostroot,addr=0x4 \
        -device virtio-gpu-pci,addr=0x10
}

# Its programs are not the host's, so its file tree is not, either. Pointers are not signed: to check that,
# the emulator takes longer than for all the rest.
boot_arm64() {
    mkdir -p ".deps/arm64/root$PWD"
    exec setpriv --pdeathsig KILL qemu-system-aarch64 -accel tcg,thread=multi -cpu max,pauth-impdef=on -machine virt -smp 2 -m 2048 \
        -nodefaults -display none -no-reboot -kernel "$kernel/vmlinuz" -initrd "$run/initrd" \
        -append "console=ttyAMA0 loglevel=4 panic=-1 mitigations=off checkout=$PWD" \
        -serial "file:$run/console" -device virtio-serial-pci -chardev "file,id=output,path=$run/output" \
        -device virtconsole,chardev=output \
        -fsdev "local,id=hostroot,path=$PWD/.deps/arm64/root,security_model=none,readonly=on,multidevs=remap" \
        -device virtio-9p-pci,fsdev=hostroot,mount_tag=hostroot \
        -fsdev "local,id=checkout,path=$PWD,security_model=none,readonly=on,multidevs=remap" \
        -device virtio-9p-pci,fsdev=checkout,mount_tag=checkout
}

began=$SECONDS
for try in 1 2 3; do
    boot
    try_began=$SECONDS
    while kill -0 "$guest" 2>/dev/null && ! grep -q '^guest: ' "$run/output" &&
        [ $((SECONDS - try_began)) -lt $boot_limit ]; do
        sleep 0.2
    done
    if grep -q '^guest: ' "$run/output"; then break; fi
    # Some boots of two emulated CPUs hang.
    echo "vm: boot $try of kernel $name hung; the kernel's last words:" >&2
    tail -n 5 "$run/console" >&2 || true
    kill -KILL "$guest" 2>/dev/null || true
    wait "$guest" 2>/dev/null || true
    guest=
done
if [ -z "$guest" ]; then
    echo "vm: kernel $name did not boot" >&2
    exit 1
fi
echo "vm: kernel $(cat "$kernel/release") booted in $((SECONDS - try_began)) s"

tail --pid="$guest" --sleep-interval=0.2 -n +1 -f "$run/output" | grep --line-buffered -v '^guest: ready$' &
reader=$!
while kill -0 "$guest" 2>/dev/null; do
    if [ $((SECONDS - began)) -ge "$limit" ]; then
        kill -KILL "$guest"
        wait "$reader" || true
        echo "vm: kernel $name did not end in $limit s; the kernel's last words:" >&2
        tail -n 20 "$run/console" >&2
        exit 1
    fi
    sleep 0.2
done
wait "$reader" || true
status=$(sed -n 's/^guest: exit \([0-9]*\)$/\1/p' "$run/output" | tail -n 1)
# What the kernel complains about is a failure, whatever the tests say.
if grep -E 'BUG:|Oops|WARNING:|general protection|Kernel panic|INFO: rcu' "$run/console" >&2; then
    echo "vm: the kernel complained; its words:" >&2
    tail -n 60 "$run/console" >&2
    exit 1
fi
echo "vm: kernel $name: exit ${status:-unknown} after $((SECONDS - began)) s"
exit "${status:-1}"
