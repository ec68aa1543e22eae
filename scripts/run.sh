#!/usr/bin/env bash
# Starts Formulary in the foreground and, once it is ready, shows a first search. Ctrl-C stops everything.
set -uo pipefail
bin=.venv/bin
url="http://${FORMULARY_HOST:-127.0.0.1}:${FORMULARY_PORT:-8080}"
server=$$

ready() {
    "$bin/python" -c "import sys, urllib.request; urllib.request.urlopen(sys.argv[1], timeout=2)" "$url/readyz" 2>/dev/null
}

first_search() {
    until ready; do
        kill -0 "$server" 2>/dev/null || return
        sleep 0.5
    done
    local answer
    answer=$("$bin/formulary" search "OOMKilled critical" --label environment=production --url "$url" 2>&1)
    kill -0 "$server" 2>/dev/null || return
    printf '\n$ %s/formulary search "OOMKilled critical" --label environment=production\n%s\n' "$bin" "$answer"
    printf '\nIn a browser: %s/console\nServing at %s until Ctrl-C. In another terminal, the same for a team that accepts no restart:\n  %s/formulary search "OOMKilled critical" --target example-payments/Deployment/checkout%s\n' \
        "$url" "$url" "$bin" "$([ "$url" = http://127.0.0.1:8080 ] || printf ' --url %s' "$url")"
}

first_search &
exec "$bin/formulary" up "$@"
