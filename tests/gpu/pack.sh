#!/bin/sh
# Puts into build/gpu/ what run.sh, measure.sh and frameworks.py need on a bare machine: the exporter without its debug
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
    cuda=$(dirname "$(dirname "$(readlink -f "$nvcc")")")
    cp -L "$cuda/lib64/libcudart.so.13" build/gpu/programs/
    # PyTorch, JAX and CuPy bring CUPTI, and on a machine with the toolkit it is there.
    cc -O2 -shared -fPIC -I"$cuda/include" "$here/count_launches.c" -o build/gpu/libcount_launches.so -L"$cuda/lib64" -lcupti
fi
du -sh build/gpu
