#!/usr/bin/env bash
# Makes sure that Debian packages are installed. Usage: packages.sh PACKAGE...
set -euo pipefail
missing=()
for package in "$@"; do
    dpkg-query --show --showformat='${db:Status-Status}' "$package" 2>/dev/null | grep -qx installed || missing+=("$package")
done
[ "${#missing[@]}" -gt 0 ] || exit 0
if [ "$(id -u)" != 0 ]; then
    echo "missing packages: ${missing[*]}; install them (apt-get install ${missing[*]}) and run this again" >&2
    exit 1
fi
apt-get update -qq
DEBIAN_FRONTEND=noninteractive apt-get install -qq -y --no-install-recommends "${missing[@]}" >/dev/null
