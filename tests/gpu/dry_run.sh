#!/bin/bash
# run.sh without a GPU: CUDA programs that nvcc compiles run on the stand-ins of a build, as root. So the script is known
# to work before somebody pays for a machine with a GPU. Exit code: that of run.sh, or 77 without nvcc.
#
#   dry_run.sh [BUILD]
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
build=$(realpath "${1:-$here/../../build/release}")
nvcc=$(PATH=$PATH:/usr/local/cuda/bin command -v nvcc) || { echo "dry run: there is no nvcc: nothing was tested"; exit 77; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# The runtime that the programs are linked with is CUDA 13's, and so is the stand-in that they find.
"$here/programs.sh" "$nvcc" "$work" "$build/standin/13"
cat >"$work/nvidia-smi" <<'END'
#!/bin/sh
echo "GPU 0: a stand-in (UUID: GPU-00000000-0000-0000-0000-000000000000)"
END
chmod +x "$work/nvidia-smi"
PATH=$work:$PATH EXPORTER=$build/gpusnoop_exporter PROGRAMS=$work "$here/run.sh"
