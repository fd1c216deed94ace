#!/bin/sh
# Builds the CUDA programs of this folder: programs.sh NVCC TO RPATH
set -eu
here=$(cd "$(dirname "$0")" && pwd)
nvcc=$1 to=$2 rpath=$3
build() { # build NAME SOURCE OPTION...
    name=$1 source=$2
    shift 2
    "$nvcc" -std=c++17 -O2 -cudart shared -Xlinker "-rpath=$rpath" "$@" -o "$to/$name" "$here/$source"
}
build calls calls.cu
build calls_ptds calls.cu --default-stream per-thread
build calls_legacy calls.cu -Xcompiler -D__NV_LEGACY_LAUNCH
build waits waits.cu
