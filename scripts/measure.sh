#!/usr/bin/env bash
# Runs a benchmark: scripts/measure.sh NAME ARGUMENTS... of python. What it prints, its numbers, and of what and when they
# are, on what processor and how busy the machine was, stay in build/benchmarks/NAME.* for docs/benchmarks.md. Files of
# the benchmark are in memory where there are 8 GB of room; TMPDIR names another place, as a million workflows need.
set -euo pipefail

results=build/benchmarks
name=$1
shift
mkdir -p "$results"
rm -f "$results/$name".*

commit=$(git describe --always --dirty)
date=$(date -u '+%F %R')
load=$(uptime | sed 's/.*averages*: //')

# Of all time of the processors since the start, in ticks: what a host gave to other machines, and the sum.
processors() { awk '$1 == "cpu" { print $9, $2 + $3 + $4 + $5 + $6 + $7 + $8 + $9 }' /proc/stat; }
read -r stolen_before all_before < <(processors)

free=$(df --output=avail -k /dev/shm 2>/dev/null | tail -1 || true)
if [ "${free:-0}" -gt 8388608 ]; then export TMPDIR="${TMPDIR:-/dev/shm}"; fi
PYTHONPATH=tests:training:. .venv/bin/python "$@" --json "$results/$name.json" | tee "$results/$name.txt"

read -r stolen all < <(processors)
bfloat16=false
if grep -qwsE 'avx512_bf16|amx_bf16|bf16' /proc/cpuinfo; then bfloat16=true; fi
printf '{"commit": "%s", "date": "%s", "load": "%s", "stolen": %s, "bfloat16": %s}\n' "$commit" "$date" "$load" \
    "$(((100 * (stolen - stolen_before)) / (all - all_before + 1)))" "$bfloat16" >"$results/$name.run"
