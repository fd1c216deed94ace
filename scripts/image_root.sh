#!/bin/sh
# The file system of the image: the tarball's program and configuration, Debian's C library, the certificates of
# authorities, and nothing else: no shell. Each Debian package leaves its control file where scanners look.
#
#   scripts/image_root.sh TARBALL PACKAGES ROOT     PACKAGES: a directory with the .deb of ca-certificates, and of
#                                                   libc6 for each architecture that tarballs are for
set -eu
tarball=$1
packages=$2
root=$3
arch=${tarball%.tar.gz}
arch=${arch##*-}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
umask 022
mkdir -p "$root/usr/bin" "$root/etc/gpusnoop_exporter" "$root/etc/ssl/certs" "$root/var/lib/dpkg/status.d" "$root/tmp" \
    "$root/usr/share/doc/gpusnoop-exporter" "$root/dev" "$root/proc" "$root/sys"
chmod 1777 "$root/tmp"

tar -xzf "$tarball" -C "$work" --strip-components=1
cp "$work/gpusnoop_exporter" "$root/usr/bin/"
cp "$work/config.yaml" "$root/etc/gpusnoop_exporter/"
cp "$work/copyright" "$work/third-party-licenses.gz" "$root/usr/share/doc/gpusnoop-exporter/"

for package in libc6 ca-certificates; do
    file=$(find "$packages" -name "${package}_*_$arch.deb" -o -name "${package}_*_all.deb")
    dpkg-deb -x "$file" "$work/$package"
    dpkg-deb -f "$file" >"$root/var/lib/dpkg/status.d/$package"
    mkdir -p "$root/usr/share/doc/$package"
    cp "$work/$package/usr/share/doc/$package/copyright" "$root/usr/share/doc/$package/"
done
# What the program is linked with, by the names that are in it.
for library in $(readelf -d "$work/gpusnoop_exporter" | sed -n 's/.*(NEEDED).*\[\(.*\)\]$/\1/p'); do
    case $library:$arch in
    ld-linux-x86-64.so.2:*) directory=/lib64 ;; # where each x86-64 program names it
    ld-linux-aarch64.so.1:*) directory=/lib ;;
    *:amd64) directory=/lib/x86_64-linux-gnu ;;
    *:arm64) directory=/lib/aarch64-linux-gnu ;;
    esac
    mkdir -p "$root$directory"
    cp -L "$(find "$work/libc6" -name "$library" | head -n 1)" "$root$directory/"
done
cat "$work"/ca-certificates/usr/share/ca-certificates/mozilla/*.crt >"$root/etc/ssl/certs/ca-certificates.crt"
printf 'root:x:0:0:root:/:/sbin/nologin\nnobody:x:65534:65534:nobody:/nonexistent:/sbin/nologin\n' >"$root/etc/passwd"
printf 'root:x:0:\nnogroup:x:65534:\n' >"$root/etc/group"
