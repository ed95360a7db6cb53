#!/bin/sh
# with-password.sh COMMAND..: runs a command with the password of this project's servers in its environment.
#
# The password is the value of STALLBENCH_PASSWORD, or else the one that the service `prepare` has generated. No file of the repository contains it.
set -eu
STALLBENCH_PASSWORD=${STALLBENCH_PASSWORD:-$(cat /secrets/password)}
export STALLBENCH_PASSWORD
export POSTGRES_PASSWORD="$STALLBENCH_PASSWORD" PGPASSWORD="$STALLBENCH_PASSWORD"
export MARIADB_ROOT_PASSWORD="$STALLBENCH_PASSWORD" MYSQL_ROOT_PASSWORD="$STALLBENCH_PASSWORD" MYSQL_PWD="$STALLBENCH_PASSWORD"
export GF_SECURITY_ADMIN_PASSWORD="$STALLBENCH_PASSWORD"
exec "$@"
