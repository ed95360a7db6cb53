#!/bin/sh
# The primary's image runs this once, when it creates its data: allows replicas from anywhere in the project's own network, and counts statements.
set -eu
echo "host replication all all scram-sha-256" >>"$PGDATA/pg_hba.conf"
psql --username "$POSTGRES_USER" --dbname "${POSTGRES_DB:-$POSTGRES_USER}" --quiet --command "CREATE EXTENSION pg_stat_statements"
