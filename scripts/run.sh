#!/usr/bin/env bash
# Starts Formulary in the foreground and, once it answers, shows a first search. Ctrl-C stops everything.
set -uo pipefail
bin=.venv/bin
url="http://${FORMULARY_HOST:-127.0.0.1}:${FORMULARY_PORT:-8080}"
server=$$

first_search() {
    local unavailable=3 answer
    while kill -0 "$server" 2>/dev/null; do
        answer=$("$bin/formulary" search "OOMKilled critical" --label environment=production --url "$url" 2>&1)
        [ $? -ne "$unavailable" ] && break
        sleep 0.5
    done
    kill -0 "$server" 2>/dev/null || return
    printf '\n$ %s/formulary search "OOMKilled critical" --label environment=production\n%s\n' "$bin" "$answer"
    printf '\nServing at %s until Ctrl-C. In another terminal: %s/formulary search "pods cannot resolve names"\n' \
        "$url" "$bin"
}

first_search &
exec "$bin/formulary" up "$@"
