#!/bin/sh
# Models of fixtures/several over NCCL on two GPUs: one observation each, and a log, in one tar.
#   sh benchmarks/two_gpus.sh [FOLDER]
# It needs Python with torch, and tcready with what it depends on (or on PYTHONPATH), and some 32 cores: five run at a time,
# in 2 to 3 minutes.
set -u
out=${1:-${OUT:-two_gpus}}
mkdir -p "$out" && out=$(cd "$out" && pwd)
cd "$(dirname "$0")/../fixtures/several" || exit 2
work=$(mktemp -d)
"${PYTHON:=python3}" -m tcready worker -o "$work/worker.pyz" || exit 2
mkdir "$work/seen"
run() {
    name=$1 class=$2 seconds=$3
    shift 3
    start=$(date +%s)
    timeout $((seconds + 30)) "$PYTHON" "$work/worker.pyz" --target "models.py::$class" --inputs models.py::get_inputs \
        --device cuda --nproc-per-node 2 --timeout "$seconds" -o "$work/seen/$name.json" "$@" >>"$work/seen/log.txt" 2>&1
    echo "$name: exit $?, $(($(date +%s) - start)) s" | tee -a "$work/seen/log.txt"
}
(nvidia-smi -L; nvidia-smi topo -m; "$PYTHON" -c "import torch; print(torch.__version__, torch.cuda.nccl.version())") \
    >"$work/seen/log.txt" 2>&1
run ddp Wide 120 --mode train &
run fsdp Net 120 --parallel fsdp &
run fsdp-train Net 120 --parallel fsdp --mode train &
run tp Net 120 --parallel tp --tp-plan models.py::styles &
run tp-own Plan 120 --parallel tp &
wait
run uneven Uneven 90 --parallel fsdp &
run sizes Sizes 60 &
run apart Apart 60 &
run waits Waits 60 &
run dies Dies 60 &
wait
tar czf "$out/two_gpus.tar.gz" -C "$work" seen
rm -rf "$work"
