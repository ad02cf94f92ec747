#!/bin/bash
# Prints the software bill of materials of a Go program, in CycloneDX's format: the modules that it was linked from, as
# it says itself. Usage: docker/sbom.sh PROGRAM VERSION
set -euo pipefail
go version -m -json "$1" | jq --arg version "$2" '
def component: {type: "library", name: .Path, version: .Version,
  purl: "pkg:golang/\(.Path | ascii_downcase)@\(.Version | @uri)"} | . + {"bom-ref": .purl};
{bomFormat: "CycloneDX", specVersion: "1.5", version: 1,
 metadata: {component: {type: "application", name: .Path, version: $version, licenses: [{license: {id: "Apache-2.0"}}]}},
 components: ([.Deps[] | .Replace // . | component] + [{Path: "stdlib", Version: (.GoVersion | ltrimstr("go"))} | component])}'
