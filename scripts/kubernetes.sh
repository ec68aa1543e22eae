#!/usr/bin/env bash
# Builds programs of Kubernetes 1.20 from Debian's source into DIR.
# Usage: kubernetes.sh DIR PROGRAM...     PROGRAM is kube-apiserver, kubelet, ..., or pause
# The newest Kubernetes that Debian carries in source is 1.20, in bookworm. A private apt configuration is used for the
# source, so that the machine's own stays as it is. Takes eight to ten minutes on two cores.
set -euo pipefail

target="$(mkdir -p "${1:?usage: kubernetes.sh DIR PROGRAM...}" && cd "$1" && pwd)"
shift
work="$(mktemp -d)"
trap 'chmod -R u+w "$work" 2>/dev/null; rm -rf "$work"' EXIT

bash "$(dirname "$0")/packages.sh" golang-go gcc libc6-dev dpkg-dev rsync golang-github-modern-go-reflect2-dev ca-certificates

# The archive that this machine installs bookworm from also has its source packages.
archive="$(apt-get indextargets --format '$(REPO_URI)' \
    'Created-By: Packages' 'Codename: bookworm' 'Component: main' | head -n 1)"
if [ -z "$archive" ]; then
    echo "this machine installs nothing from Debian bookworm, whose sources hold Kubernetes" >&2
    exit 1
fi
echo "deb-src [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] $archive bookworm main" >"$work/sources.list"
mkdir -p "$work/lists/partial"
private=(-o "Dir::Etc::SourceList=$work/sources.list" -o Dir::Etc::SourceParts=/dev/null -o "Dir::State::Lists=$work/lists"
    -o APT::Sandbox::User=root)
apt-get "${private[@]}" -qq update
mkdir "$work/source"
(cd "$work/source" && apt-get "${private[@]}" -qq source kubernetes >/dev/null)
tree="$(echo "$work"/source/kubernetes-*/)"

# The vendored reflect2 1.0.1 crashes the API server under Go 1.18 and newer after its first few objects.
vendored="$tree/vendor/github.com/modern-go/reflect2"
rm -f "$vendored"/*.go "$vendored"/*.s
cp /usr/share/gocode/src/github.com/modern-go/reflect2/*.go /usr/share/gocode/src/github.com/modern-go/reflect2/*.s "$vendored/"
rm -f "$vendored"/*_test.go

mkdir -p "$work/go/src/k8s.io"
ln -s "$tree" "$work/go/src/k8s.io/kubernetes"
export GOPATH="$work/go" GO111MODULE=off CGO_ENABLED=0 GOCACHE="$work/cache" GOFLAGS=
commands=()
for program in "$@"; do
    [ "$program" = pause ] || commands+=("cmd/$program")
done
make -C "$work/go/src/k8s.io/kubernetes" WHAT="${commands[*]}"
for program in "$@"; do
    if [ "$program" = pause ]; then
        gcc -Os -static -DVERSION=3.2 -o "$target/pause" "$(find "$tree/build/pause" -name pause.c | head -n 1)"
    else
        cp "$tree"/_output/local/bin/linux/*/"$program" "$target/"
        "$target/$program" --version
    fi
done
