#!/bin/bash
# run.sh, training.py and frameworks.py without a GPU, as root: the programs that nvcc compiles, and as much of PyTorch as they use
# (standins/torch), run on the stand-ins of a build. So the scripts are known to work before somebody pays for a machine with
# a GPU. The figures of training.py say nothing. Exit code: that of the script that fails.
#
#   dry_run.sh [BUILD]
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
build=$(realpath "${1:-$here/../../build/release}")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# The runtime that the programs are linked with is CUDA 13's, and so is the stand-in that they find.
if nvcc=$(PATH=$PATH:/usr/local/cuda/bin command -v nvcc); then
    "$here/programs.sh" "$nvcc" "$work" "$build/standin/13"
    export PROGRAMS=$work
fi
cat >"$work/nvidia-smi" <<'END'
#!/bin/sh
echo "GPU 0: a stand-in (UUID: GPU-00000000-0000-0000-0000-000000000000)"
END
chmod +x "$work/nvidia-smi"
export PYTHONDONTWRITEBYTECODE=1 PATH=$work:$PATH EXPORTER=$build/gpusnoop_exporter
export PYTHONPATH=$here/standins STANDIN_RUNTIME=$build/standin/12/libcudart.so.12 STANDIN_DRIVER=$build/standin/driver/libcuda.so.1
"$here/run.sh"
python3 "$here/training.py" "$EXPORTER" --variants session,full,cuda_only --rounds 1 --seconds 0.3
COUNT_LAUNCHES=/dev/null python3 "$here/frameworks.py" "$EXPORTER" --only eager
