#!/bin/sh
# Puts into build/gpu/ what run.sh and measure.sh need on a bare machine: the exporter without its debug
# information and, if there is nvcc here, the CUDA programs with the runtime that they are linked with.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
cd "$here/../.."
rm -rf build/gpu
mkdir -p build/gpu/programs
strip --strip-debug -o build/gpu/gpusnoop_exporter build/release/gpusnoop_exporter
nvcc=$(PATH=$PATH:/usr/local/cuda/bin command -v nvcc || true)
if [ -n "$nvcc" ]; then
    "$here/programs.sh" "$nvcc" build/gpu/programs '$ORIGIN'
    cp -L "$(dirname "$(dirname "$(readlink -f "$nvcc")")")/lib64/libcudart.so.13" build/gpu/programs/
fi
du -sh build/gpu
