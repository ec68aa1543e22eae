#!/usr/bin/env bash
# Builds a Kubernetes control plane for the tests into DIR: kube-apiserver, etcd and kubectl.
# Usage: control-plane.sh DIR
# Everything comes from Debian: the newest API server it carries in source is 1.20, in bookworm. A private apt
# configuration is used for the source, so that the machine's own stays as it is. Takes about eight minutes.
set -euo pipefail

target="$(mkdir -p "${1:?usage: control-plane.sh DIR}" && cd "$1" && pwd)"
work="$(mktemp -d)"

finish() {
    local code=$?
    chmod -R u+w "$work" 2>/dev/null || true
    rm -rf "$work"
    [ "$code" = 0 ] && return
    echo "no control plane could be built; set KUBEBUILDER_ASSETS to a directory with kube-apiserver, etcd and kubectl," \
        "or FORMULARY_TEST_KUBECONFIG to the kubeconfig of a throwaway cluster" >&2
}
trap finish EXIT

packages=(golang-go etcd-server dpkg-dev rsync golang-github-modern-go-reflect2-dev ca-certificates)
command -v kubectl >/dev/null || packages+=(kubernetes-client)
missing=()
for package in "${packages[@]}"; do
    dpkg-query --show --showformat='${db:Status-Status}' "$package" 2>/dev/null | grep -qx installed || missing+=("$package")
done
if [ "${#missing[@]}" -gt 0 ]; then
    if [ "$(id -u)" != 0 ]; then
        echo "missing packages: ${missing[*]}; install them (apt-get install ${missing[*]}) and run this again" >&2
        exit 1
    fi
    apt-get update -qq
    DEBIAN_FRONTEND=noninteractive apt-get install -qq -y --no-install-recommends "${missing[@]}" >/dev/null
fi

# The archive that this machine installs bookworm from also has its source packages.
archive="$(apt-get indextargets --format '$(REPO_URI)' \
    'Created-By: Packages' 'Codename: bookworm' 'Component: main' | head -n 1)"
if [ -z "$archive" ]; then
    echo "this machine installs nothing from Debian bookworm, whose sources hold the API server" >&2
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

# The vendored reflect2 1.0.1 crashes the server under Go 1.18 and newer after its first few objects.
vendored="$tree/vendor/github.com/modern-go/reflect2"
rm -f "$vendored"/*.go "$vendored"/*.s
cp /usr/share/gocode/src/github.com/modern-go/reflect2/*.go /usr/share/gocode/src/github.com/modern-go/reflect2/*.s "$vendored/"
rm -f "$vendored"/*_test.go

mkdir -p "$work/go/src/k8s.io"
ln -s "$tree" "$work/go/src/k8s.io/kubernetes"
export GOPATH="$work/go" GO111MODULE=off CGO_ENABLED=0 GOCACHE="$work/cache" GOFLAGS=
make -C "$work/go/src/k8s.io/kubernetes" WHAT=cmd/kube-apiserver

# take PROGRAM VERSION-ARGUMENT...: a copy outlives the package; some programs only work where they were installed.
take() {
    local program="$1" path
    path="$(command -v "$program")"
    cp --dereference "$path" "$target/$program"
    "$target/$program" "${@:2}" >/dev/null 2>&1 || ln -sf "$path" "$target/$program"
    "$target/$program" "${@:2}"
}
cp "$tree"/_output/local/bin/linux/*/kube-apiserver "$target/"
"$target/kube-apiserver" --version
take etcd --version
take kubectl version --client
