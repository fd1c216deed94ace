#!/bin/sh
# Puts into build/gpu/ what run.sh needs on a bare machine: the exporter without its debug information,
# and the libraries it is linked with, except the C library's own.
set -eu
cd "$(dirname "$0")/../.."
rm -rf build/gpu
mkdir -p build/gpu/lib
strip --strip-debug -o build/gpu/gpusnoop_exporter build/release/gpusnoop_exporter
ldd build/gpu/gpusnoop_exporter | sed -n 's/.* => \(\/[^ ]*\).*/\1/p' | while read -r library; do
    case ${library##*/} in
    libc.so.* | libm.so.* | libpthread.so.* | libdl.so.* | librt.so.*) ;;
    *) cp -L "$library" build/gpu/lib/ ;;
    esac
done
du -sh build/gpu
