#!/bin/bash
# Builds the images of docker/Dockerfile with buildah, without a daemon and without a registry: the build
# stage uses this machine's Go toolchain, or the base image GO_IMAGE. Run as root; make images calls it.
set -euo pipefail
cd "$(dirname "$0")/.."

need() {
  command -v "$1" >/dev/null || { echo "images: $1 is missing: apt-get install $2" >&2; exit 1; }
}
need buildah buildah
need jq jq

# The version is the tag or the commit, marked if the tree is dirty.
VERSION=${VERSION:-$(git describe --tags --always --dirty 2>/dev/null || echo devel)}
REVISION=${REVISION:-$(git rev-parse HEAD 2>/dev/null || true)}
SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct 2>/dev/null || echo 0)}

# base makes an image of this machine's Go toolchain, a shell and root certificates.
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

# settled removes from an image what differs between builds: the ids of build containers. The result, and
# so the image's digest, depends only on the source and the version.
settled() {
  local dir config old new
  dir=$(mktemp -d)
  trap 'rm -rf "$dir"' RETURN
  buildah push --quiet "$1" "dir:$dir"
  old=$(jq -r '.config.digest | ltrimstr("sha256:")' "$dir/manifest.json")
  config=$(jq -cS 'del(.container, .container_config, .parent, .history[]?.comment) | .config.Hostname = ""' "$dir/$old")
  rm "$dir/$old"
  new=$(printf %s "$config" | sha256sum | cut -d' ' -f1)
  printf %s "$config" > "$dir/$new"
  jq -cS --arg digest "sha256:$new" --argjson size "$(wc -c < "$dir/$new")" '.config.digest = $digest | .config.size = $size' \
    "$dir/manifest.json" > "$dir/manifest"
  mv "$dir/manifest" "$dir/manifest.json"
  buildah pull --quiet "dir:$dir"
}

if [[ -z ${GO_IMAGE:-} ]]; then
  GO_IMAGE=localhost/weft-go:$(go env GOVERSION)
  buildah inspect --type image "$GO_IMAGE" >/dev/null 2>&1 || base "$GO_IMAGE"
fi

# A cached layer has the date of its build, and would change the image's digest; Go's build cache is used
# nevertheless.
for target in worker starter; do
  buildah build --isolation chroot --format docker --no-cache --file docker/Dockerfile --ignorefile docker/Dockerfile.dockerignore \
    --target "$target" --build-arg GO_IMAGE="$GO_IMAGE" --build-arg VERSION="$VERSION" --build-arg REVISION="$REVISION" \
    --timestamp "$SOURCE_DATE_EPOCH" --tag "weft/$target:$VERSION" .
  id=$(settled "weft/$target:$VERSION")
  buildah tag "$id" "weft/$target:$VERSION" "weft/$target:latest"
  container=$(buildah from --pull-never "weft/$target:$VERSION")
  mkdir -p bin
  docker/sbom.sh "$(buildah mount "$container")/$target" "$VERSION" > "bin/$target-$VERSION.cdx.json"
  buildah rm "$container" >/dev/null
  echo "weft/$target:$VERSION sha256:${id#sha256:} bin/$target-$VERSION.cdx.json"
done
