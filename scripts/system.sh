#!/usr/bin/env bash
# Makes sure that the few programs which do not come from PyPI are there: installs them on Debian as root, else says
# what is missing. Usage: system.sh PYTHON | npm | chromium
set -euo pipefail

install() {
    if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
        echo "installing $* with apt-get"
        apt-get update -q && DEBIAN_FRONTEND=noninteractive apt-get install -q -y --no-install-recommends "$@"
        return
    fi
    echo "missing: $*; install it (on Debian: apt-get install $*) and run this again" >&2
    exit 1
}

case "${1:?usage: system.sh PYTHON|npm|chromium}" in
npm)
    command -v npm >/dev/null || install npm
    ;;
chromium)
    # The names that tests/support/browser.py looks for.
    [ -x "${FORMULARY_TEST_CHROMIUM:-}" ] || command -v chromium chromium-browser google-chrome >/dev/null || install chromium
    ;;
*)
    command -v "$1" >/dev/null || install python3 python3-venv
    "$1" "$(dirname "$0")/supported.py"
    command -v uv >/dev/null || "$1" -c 'import ensurepip' 2>/dev/null || install python3-venv
    ;;
esac
