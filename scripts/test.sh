#!/usr/bin/env bash
# Runs all tests, in two processes at once that take about as long: those that wait a lot, for a cluster, for packages or in
# a soak, and all others. What the first ones print comes at the end, however that comes. Each half ends at its tenth failure.
#
# A native crash leaves the traces of all threads: that of pytest in what it prints, those of the processes that tests
# start at the very end.
set -euo pipefail

unset PYTHONDONTWRITEBYTECODE # else each half compiles all tests again

pytest=(.venv/bin/pytest --maxfail=10 --durations=15)
printed=$(mktemp)
FAULTS_FILE=$(mktemp)
chmod 666 "$FAULTS_FILE" # root's tests start programs under other accounts, too
export FAULTS_FILE PYTHONPATH="$PWD/tests/faults${PYTHONPATH:+:$PYTHONPATH}"

"${pytest[@]}" -o cache_dir=.pytest_cache/cluster tests/chart tests/clients tests/cluster tests/console tests/packaging tests/security tests/integration/soak >"$printed" 2>&1 &
cluster=$!
trap 'kill $cluster 2>/dev/null || true; wait; cat "$printed" "$FAULTS_FILE"; rm -f "$printed" "$FAULTS_FILE"' EXIT

outcome=0
"${pytest[@]}" --ignore=tests/integration/soak tests/integration tests/property tests/unit || outcome=$?
wait $cluster || outcome=$?
exit $outcome
