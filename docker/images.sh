#!/bin/bash
# Builds the images of docker/Dockerfile with buildah: no daemon, and no registry, because
# the stage that compiles stands on this machine's own Go toolchain. GO_IMAGE names a base
# image instead. Run as root; make images calls it.
set -euo pipefail
cd "$(dirname "$0")/.."

need() {
  command -v "$1" >/dev/null || { echo "images: $1 is missing: apt-get install $2" >&2; exit 1; }
}
need buildah buildah

# The version is the tag, or the commit; a changed tree says so.
VERSION=${VERSION:-$(git describe --tags --always --dirty 2>/dev/null || echo devel)}
REVISION=${REVISION:-$(git rev-parse HEAD 2>/dev/null || true)}
SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct 2>/dev/null || echo 0)}

# base makes an image of this machine's Go toolchain, a shell and its root certificates.
base() {
  need busybox busybox-static
  local goroot container mount
  goroot=$(go env GOROOT)
  container=$(buildah from scratch)
  trap 'buildah rm "$container" >/dev/null' RETURN
  mount=$(buildah mount "$container")
  mkdir -p "$mount"/{bin,tmp,root,usr/local,etc/ssl/certs}
  cp "$(command -v busybox)" "$mount/bin/busybox"
  ln -s busybox "$mount/bin/sh"
  cp -rL "$goroot" "$mount/usr/local/go"
  rm -rf "$mount/usr/local/go/test" "$mount/usr/local/go/api"
  cp -L /etc/ssl/certs/ca-certificates.crt "$mount/etc/ssl/certs/"
  buildah umount "$container" >/dev/null
  buildah config --env PATH=/usr/local/go/bin:/bin --env GOPATH=/go --env GOPROXY="$(go env GOPROXY)" --env GOSUMDB="$(go env GOSUMDB)" "$container"
  buildah commit --quiet "$container" "$1" >/dev/null
}

if [[ -z ${GO_IMAGE:-} ]]; then
  GO_IMAGE=localhost/weft-go:$(go env GOVERSION)
  buildah inspect --type image "$GO_IMAGE" >/dev/null 2>&1 || base "$GO_IMAGE"
fi

for target in worker starter; do
  buildah build --isolation chroot --format docker --layers --file docker/Dockerfile --ignorefile docker/Dockerfile.dockerignore \
    --target "$target" --build-arg GO_IMAGE="$GO_IMAGE" --build-arg VERSION="$VERSION" --build-arg REVISION="$REVISION" \
    --timestamp "$SOURCE_DATE_EPOCH" --tag "weft/$target:$VERSION" --tag "weft/$target:latest" .
  echo "weft/$target:$VERSION"
done
