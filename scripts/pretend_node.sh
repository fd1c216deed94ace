#!/bin/sh
# For stand-in programs on a machine without a GPU: writes two GPUs as NVIDIA's driver lists them, and a copy of
# config.yaml that names them and the stand-in libraries of a build, which are probed before a program starts.
#
#   scripts/pretend_node.sh DIRECTORY BUILD    the configuration is DIRECTORY/config.yaml
set -eu
directory=$1
libraries=$(realpath "$2/standin")
source=$(dirname "$0")/..

for gpu in 0 1; do
    address=0000:$((3 + gpu))b:00.0
    mkdir -p "$directory/nvidia/gpus/$address"
    {
        printf 'Model: \t\t Pretended\nGPU UUID: \t GPU-0000000%s-0000-0000-0000-000000000000\n' "$gpu"
        printf 'Bus Location: \t %s\nDevice Minor: \t %s\n' "$address" "$gpu"
    } >"$directory/nvidia/gpus/$address/information"
done
sed -e "s|^\( *nvidia_proc_path:\).*|\1 $directory/nvidia|" -e "s|^\( *preattach:\).*|\1 [\"$libraries/*/libcud*.so*\"]|" \
    "$source/config.yaml" >"$directory/config.yaml"
