#!/usr/bin/env bash
# Builds a Kubernetes control plane for the tests into DIR: kube-apiserver, etcd and kubectl.
# Usage: control-plane.sh DIR
set -euo pipefail

target="$(mkdir -p "${1:?usage: control-plane.sh DIR}" && cd "$1" && pwd)"
here="$(cd "$(dirname "$0")" && pwd)"

finish() {
    local code=$?
    [ "$code" = 0 ] && return
    echo "no control plane could be built; set KUBEBUILDER_ASSETS to a directory with kube-apiserver, etcd and kubectl," \
        "or FORMULARY_TEST_KUBECONFIG to the kubeconfig of a throwaway cluster" >&2
}
trap finish EXIT

packages=(etcd-server)
command -v kubectl >/dev/null || packages+=(kubernetes-client)
bash "$here/packages.sh" "${packages[@]}"
bash "$here/kubernetes.sh" "$target" kube-apiserver

# take PROGRAM VERSION-ARGUMENT...: a copy outlives the package; some programs only work where they were installed.
take() {
    local program="$1" path
    path="$(command -v "$program")"
    cp --dereference "$path" "$target/$program"
    "$target/$program" "${@:2}" >/dev/null 2>&1 || ln -sf "$path" "$target/$program"
    "$target/$program" "${@:2}"
}
take etcd --version
take kubectl version --client
