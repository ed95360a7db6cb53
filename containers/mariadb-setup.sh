#!/bin/sh
# Allows every process of the bench to log in with its own name, the only name that InnoDB's deadlock reports show, and makes the
# replica follow the primary through Toxiproxy. A second call changes nothing.
set -eu
quoted=$(printf %s "$STALLBENCH_PASSWORD" | sed "s/[\\\\']/\\\\&/g")
for server in mariadb-primary mariadb-replica; do
  mariadb --host="$server" --user=root <<SQL
SET SESSION sql_log_bin = 0;
CREATE USER IF NOT EXISTS ''@'%' IDENTIFIED BY '$quoted';
GRANT ALL ON *.* TO ''@'%' WITH GRANT OPTION;
SQL
done
mariadb --host=mariadb-replica --user=root <<SQL
STOP SLAVE;
CHANGE MASTER TO MASTER_HOST = 'toxiproxy-mariadb', MASTER_PORT = 13308, MASTER_USER = 'replica-1',
  MASTER_PASSWORD = '$quoted', MASTER_USE_GTID = slave_pos, MASTER_CONNECT_RETRY = 1;
START SLAVE;
SQL
until mariadb --host=mariadb-replica --user=root --execute='SHOW REPLICA STATUS\G' | grep -q 'Slave_SQL_Running: Yes\|Replica_SQL_Running: Yes'; do
  sleep 0.5
done
