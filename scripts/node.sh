#!/usr/bin/env bash
# Builds what a node needs beside a control plane into DIR: kubelet, kube-proxy, controller manager, scheduler, pause.
# Usage: node.sh DIR
set -euo pipefail

target="${1:?usage: node.sh DIR}"
here="$(cd "$(dirname "$0")" && pwd)"
bash "$here/packages.sh" containerd runc containernetworking-plugins iptables conntrack iproute2 e2fsprogs busybox-static \
    mmdebstrap
bash "$here/kubernetes.sh" "$target" kubelet kube-controller-manager kube-scheduler kube-proxy pause
