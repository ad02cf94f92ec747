#!/bin/bash
# Runs the services of compose.yaml without containers, on loopback: PostgreSQL, a cluster of two
# Temporal servers, two workers.
#
#   docker/cluster.sh               run until Ctrl-C
#   docker/cluster.sh COMMAND...    run the command on it, then stop; its exit code
#
# The command gets TEMPORAL_ADDRESS and WEFT_CLUSTER: the directory with logs, the pid of each server
# and worker in NAME.pid, and NAME.run, which restarts that program after a kill (then write its pid).
# Everything is removed at the end. make cluster builds the programs and calls this.
set -euo pipefail
cd "$(dirname "$0")/.."
bin=$PWD/bin

pgport=${PGPORT:-15432}
first=127.0.0.11 second=127.0.0.12
export TEMPORAL_ADDRESS=$first:7233

fail() { echo "cluster: $*" >&2; exit 1; }
say() { echo "cluster: $*" >&2; }

for p in temporal-server temporal-sql-tool worker; do
  [[ -x $bin/$p ]] || fail "bin/$p is missing: make cluster builds it"
done
pgbin=$(ls -d /usr/lib/postgresql/*/bin 2>/dev/null | sort -V | tail -1 || true)
if [[ -z $pgbin ]]; then
  pgbin=$(dirname "$(command -v initdb || true)")
fi
[[ -x $pgbin/initdb ]] || fail "there is no PostgreSQL here: apt-get install postgresql"
[[ $(uname) == Linux ]] || fail "$first and $second are addresses of this machine on Linux alone"

# PostgreSQL refuses to run as root.
as=()
if [[ $EUID == 0 ]]; then
  id postgres >/dev/null 2>&1 || fail "there is no user postgres, and PostgreSQL does not run as root"
  as=(runuser -u postgres --)
fi

dir=$(mktemp -d "${TMPDIR:-/tmp}/weft-cluster.XXXXXX")
chmod 711 "$dir"
export WEFT_CLUSTER=$dir
# As in tests/programs: tests run workers of their own beside these.
export WEFT_SEAL_KEYS=${WEFT_SEAL_KEYS:-test:YSBrZXkgb2YgdGhpcnR5LXR3byBieXRlcywgdGVzdHM=}

# again records how a program is started.
again() {
  local name=$1
  shift
  printf 'cd %q && exec' "$PWD" >"$dir/$name.run"
  printf ' %q' "$@" >>"$dir/$name.run"
}

# begin starts a program in the background and records its pid.
begin() {
  local name=$1
  again "$@"
  shift
  "$@" >"$dir/$name.log" 2>&1 &
  echo $! >"$dir/$name.pid"
}

# ours reports whether a pid belongs to this cluster: its environment names the directory.
ours() { grep -qzxF "WEFT_CLUSTER=$dir" "/proc/$1/environ" 2>/dev/null; }

# stop stops the cluster, workers first and PostgreSQL last.
stop() {
  local code=$? name pid
  trap - EXIT INT TERM
  for name in worker-1 worker-2 temporal-1 temporal-2; do
    if [[ -f $dir/$name.pid ]]; then
      pid=$(<"$dir/$name.pid")
      if ours "$pid"; then
        kill "$pid" 2>/dev/null || true
        timeout 20 tail --pid="$pid" -f /dev/null || kill -9 "$pid" 2>/dev/null || true
      fi
    fi
  done
  if [[ -f $dir/pg/postmaster.pid ]]; then
    "${as[@]}" "$pgbin/pg_ctl" -D "$dir/pg" -m immediate -w stop >/dev/null || true
  fi
  if [[ $code != 0 && $code != 130 ]]; then
    say "failed; the ends of the logs:"
    tail -n 15 "$dir"/*.log >&2 || true
  fi
  rm -rf "$dir"
  exit "$code"
}
trap stop EXIT
trap 'exit 130' INT TERM

# until_ok repeats a command until it succeeds, for at most a number of seconds.
until_ok() {
  local seconds=$1 what=$2
  shift 2
  for ((i = 0; i < seconds * 5; i++)); do
    if "$@" >/dev/null 2>&1; then return; fi
    sleep 0.2
  done
  fail "$what is not ready after $seconds s"
}

say "PostgreSQL on 127.0.0.1:$pgport"
mkdir "$dir/pg"
[[ $EUID != 0 ]] || chown postgres "$dir/pg"
"${as[@]}" "$pgbin/initdb" -D "$dir/pg" -A trust -U temporal --no-sync >"$dir/initdb.log" 2>&1 || fail "initdb failed"
start=("${as[@]}" "$pgbin/pg_ctl" -D "$dir/pg" -l "$dir/pg/log" -w -o "-c listen_addresses=127.0.0.1 -p $pgport -k $dir/pg" start)
again postgres "${start[@]}"
"${start[@]}" >"$dir/postgres.log" 2>&1 ||
  fail "PostgreSQL does not start: $(tail -n 3 "$dir/pg/log" 2>/dev/null)"

SQL_HOST=127.0.0.1 SQL_PORT=$pgport SQL_USER=temporal SQL_PASSWORD=none SQL_TOOL=$bin/temporal-sql-tool \
  sh docker/temporal/schema.sh >"$dir/schema.log" 2>&1 || fail "the schema could not be made"

for n in 1 2; do
  ip=$first
  [[ $n == 1 ]] || ip=$second
  say "Temporal on $ip:7233"
  begin temporal-$n env DB=postgres12 POSTGRES_SEEDS=127.0.0.1 DB_PORT="$pgport" POSTGRES_USER=temporal POSTGRES_PWD=none \
    NUM_HISTORY_SHARDS=4 BIND_ON_IP=$ip TEMPORAL_BROADCAST_ADDRESS=$ip TEMPORAL_ALLOW_NO_AUTH=true LOG_LEVEL=error \
    DYNAMIC_CONFIG_FILE_PATH="$PWD/docker/temporal/dynamic.yaml" "$bin/temporal-server" start
  # One after the other: both would write the cluster's name into the new database, and one would fail.
  TEMPORAL_ADDRESS=$ip:7233 "$bin/worker" setup -wait 60s >"$dir/setup-$n.log" 2>&1 || fail "Temporal on $ip:7233 is not ready"
done

for n in 1 2; do
  ip=$first
  [[ $n == 1 ]] || ip=$second
  begin worker-$n env TEMPORAL_ADDRESS=$ip:7233 WEFT_WORKER_HEALTH_LISTEN=127.0.0.1:$((8085 + n)) \
    WEFT_WORKER_METRICS_LISTEN=127.0.0.1:$((9463 + n)) WEFT_WORKER_LOG=json WEFT_WORKER_LOG_LEVEL=info \
    WEFT_MODEL="${WEFT_MODEL:-script}" "$bin/worker"
done
for n in 1 2; do
  WEFT_WORKER_HEALTH_LISTEN=127.0.0.1:$((8085 + n)) until_ok 60 "worker $n" "$bin/worker" health
  say "worker $n is ready, metrics on http://127.0.0.1:$((9463 + n))/metrics"
done

if (($# > 0)); then
  "$@"
  exit
fi
say "ready: TEMPORAL_ADDRESS=$TEMPORAL_ADDRESS bin/starter ...; logs in $dir; Ctrl-C ends it"
wait
