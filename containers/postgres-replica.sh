#!/bin/sh
# Takes a base backup of the primary through Toxiproxy, once, and then starts the replica by the command in its arguments.
set -eu
if [ "$(id -u)" = 0 ]; then
  mkdir -p "$PGDATA" /var/run/postgresql
  chown -R postgres "$PGDATA" /var/run/postgresql
  chmod 700 "$PGDATA"
  exec setpriv --reuid=postgres --regid=postgres --init-groups "$0" "$@"
fi
if [ ! -s "$PGDATA/PG_VERSION" ]; then
  pg_basebackup --pgdata="$PGDATA" --write-recovery-conf --wal-method=stream --checkpoint=fast --no-sync \
    --dbname="host=toxiproxy-postgres port=15434 user=stallbench application_name=replica-1"
fi
exec "$@"
