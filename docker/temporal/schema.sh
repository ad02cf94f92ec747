#!/bin/sh
# Makes Temporal's two databases on PostgreSQL and brings their schemas up to date. What is
# there stays; it may be repeated. Where the database is, SQL_HOST, SQL_PORT, SQL_USER and
# SQL_PASSWORD say; SQL_TOOL names Temporal's tool, which has the schemas in it.
set -eu
export SQL_PLUGIN=postgres12
tool=${SQL_TOOL:-temporal-sql-tool}

update() {
  "$tool" --db "$1" update-schema --schema-name "postgresql/v12/$2"
}

for pair in temporal:temporal temporal_visibility:visibility; do
  db=${pair%:*} schema=${pair#*:}
  # A database without a schema cannot be updated; it may not be there at all.
  if ! update "$db" "$schema" >/dev/null 2>&1; then
    "$tool" --db "$db" create-database
    "$tool" --db "$db" setup-schema -v 0.0
    update "$db" "$schema"
  fi
done
echo "schema: temporal and temporal_visibility are up to date"
