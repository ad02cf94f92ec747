#!/bin/bash
# Runs the scenarios of MCP's conformance suite that a protocol's version requires of clients, against one
# embedded Temporal: conformance.sh 2025-11-25 2026-07-28, or a scenario's name after the version.
set -euo pipefail
cd "$(dirname "$0")"
[[ -x node_modules/node/bin/node ]] || exit 0 # make npm says why
bin=$(cd ../../bin && pwd)
export WEFT_BIN=$bin PATH=$PWD/node_modules/node/bin:$PATH
logs=$(mktemp -d)
"$bin/weft-devserver" -worker=false -db :memory: -port 0 -ui-port 0 -ready-file "$logs/ready" >"$logs/server" 2>&1 &
server=$!
trap 'kill $server; wait $server || true' EXIT
until [[ -s $logs/ready ]]; do sleep 0.1; kill -0 $server; done
TEMPORAL_ADDRESS=$(node -p 'JSON.parse(require("fs").readFileSync(process.argv[1])).address' "$logs/ready")
export TEMPORAL_ADDRESS
suite=node_modules/@modelcontextprotocol/conformance/dist/index.js
failed=0
for version in ${VERSIONS:-2025-11-25 2026-07-28}; do
  if [[ -n ${SCENARIO:-} ]]; then
    what=(--scenario "$SCENARIO" --spec-version "$version" --verbose)
  else
    what=(--requirements "$version" --expected-failures expected-failures.yaml)
  fi
  node "$suite" client --command "node $PWD/client.mjs" --timeout "${TIMEOUT:-60000}" -o "$logs/$version" "${what[@]}" >"$logs/$version.log" 2>&1 || failed=1
  grep -nE '✓|✗|PASS|FAIL|[Pp]assed|[Ff]ailed' "$logs/$version.log" | cut -c1-160 | sed 's/^/'"$version"' /' || true
done
echo "logs: $logs"
exit $failed
