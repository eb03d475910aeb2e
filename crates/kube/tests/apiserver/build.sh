#!/usr/bin/env bash
# Builds kube-apiserver and etcd unless they are built, and prints the directory that has both: DELTA_FIFO_APISERVER, or one in
# the user's cache, which outlives the clone. Any number of these may run at once. Status 77: it cannot be done here.
set -euo pipefail
cd "$(dirname "$0")"

version() { awk -v module="$1" '$1 == module {print $2; exit}' go.mod; }
kube=$(version k8s.io/kubernetes) etcd=$(version go.etcd.io/etcd/server/v3)
out=${DELTA_FIFO_APISERVER:-${XDG_CACHE_HOME:-$HOME/.cache}/delta-fifo/apiserver-$kube-etcd-$etcd}

finish_if_built() {
  [[ -x $out/etcd && -x $out/kube-apiserver ]] || return 0
  echo "$out"
  exit 0
}

finish_if_built
if ! command -v go >/dev/null; then
  echo 'Go is not installed: kube-apiserver and etcd are not built' >&2
  exit 77
fi
mkdir -p "$out"
# Who waits here finds it done. Where there is no flock both build, and the second changes nothing.
if command -v flock >/dev/null; then
  exec 9>"$out/lock"
  flock 9
  finish_if_built
fi
# This fetches the modules, and compiles nothing.
if ! go list -deps ./... >/dev/null; then
  echo 'The modules of kube-apiserver and etcd cannot be fetched: they are not built' >&2
  exit 77
fi

half=$(mktemp -d "$out/half.XXXXXX")
trap 'rm -rf "$half"' EXIT
minor=${kube#v1.} package=k8s.io/component-base/version
# Without these the server calls itself v0.0.0-master.
names="-X $package.gitVersion=$kube -X $package.gitMajor=1 -X $package.gitMinor=${minor%%.*}"
export CGO_ENABLED=0
go build -trimpath -buildvcs=false -ldflags '-s -w' -o "$half/etcd" ./etcd >&2
go build -trimpath -buildvcs=false -ldflags "-s -w $names" -o "$half/kube-apiserver" ./apiserver >&2
# What is there is whole.
mv -f "$half/etcd" "$half/kube-apiserver" "$out"
echo "$out"
