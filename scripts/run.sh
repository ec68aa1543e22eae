#!/usr/bin/env bash
# Starts Formulary in the foreground and, once it answers, shows a first search. Ctrl-C stops everything.
set -uo pipefail
bin=.venv/bin
url="http://${FORMULARY_HOST:-127.0.0.1}:${FORMULARY_PORT:-8080}"

"$bin/formulary" up "$@" &
server=$!
trap 'kill -TERM "$server" 2>/dev/null' INT TERM

unavailable=3
for _ in $(seq 120); do
    kill -0 "$server" 2>/dev/null || { wait "$server"; exit $?; }
    "$bin/formulary" search "OOMKilled critical" --label environment=production --url "$url" >/dev/null 2>&1
    [ $? -ne "$unavailable" ] && break
    sleep 0.5
done

printf '\n$ formulary search "OOMKilled critical" --label environment=production\n\n'
"$bin/formulary" search "OOMKilled critical" --label environment=production --url "$url"
printf '\nServing at %s until Ctrl-C. Try: %s/formulary search "pods cannot resolve names"\n' "$url" "$bin"

# A trapped signal ends the first wait; the second one waits for the shutdown itself.
wait "$server"
wait "$server" 2>/dev/null
exit $?
