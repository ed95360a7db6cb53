#!/bin/sh
# The primary's image runs this once, when it creates its data: allows replicas from anywhere in the project's own network.
set -eu
echo "host replication all all scram-sha-256" >>"$PGDATA/pg_hba.conf"
