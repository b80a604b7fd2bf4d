#!/usr/bin/env bash
# Acceptance of mothtrap on a GPU, in at most 8 minutes.
#
#   bench/gpu.sh                             on a GPU
#   bench/gpu.sh --device cpu --width 32     the same programs on the CPU, small
#
# Exits with 0 if every check passed, with 1 if one failed, and with 124 if time ran out.
set -euo pipefail
cd "$(dirname "$0")/.."
python="${PYTHON:-.venv/bin/python}"
command -v "$python" >/dev/null || python=python3
exec timeout 480 "$python" bench/gpu_acceptance.py "$@"
