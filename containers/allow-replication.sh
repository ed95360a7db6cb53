#!/bin/sh
# Run once by the primary's image, when it makes its data: replicas may come from anywhere in the project's own network.
set -eu
echo "host replication all all scram-sha-256" >>"$PGDATA/pg_hba.conf"
