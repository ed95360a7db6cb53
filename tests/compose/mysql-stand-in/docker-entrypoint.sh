#!/bin/sh
# What the public image documents, as far as containers/mysql.yml needs it: MYSQL_ROOT_PASSWORD, MYSQL_DATABASE, and scripts that run once, on a
# server without a network.
set -eu
socket=/run/mysqld/mysqld.sock
set -- "$@" --no-defaults --user=mysql --basedir=/opt/mysql --datadir=/var/lib/mysql --socket=$socket
if [ ! -d /var/lib/mysql/mysql ]; then
  : "${MYSQL_ROOT_PASSWORD:?must be set: the server has no data yet}"
  mysqld --no-defaults --initialize-insecure --user=mysql --basedir=/opt/mysql --datadir=/var/lib/mysql
  "$@" --skip-networking --mysqlx=0 &
  until mysqladmin --user=root --socket=$socket --silent ping; do sleep 0.5; done
  quoted=$(printf %s "$MYSQL_ROOT_PASSWORD" | sed "s/[\\\\']/\\\\&/g")
  mysql --user=root --socket=$socket <<SQL
CREATE USER root@'%' IDENTIFIED BY '$quoted';
GRANT ALL ON *.* TO root@'%' WITH GRANT OPTION;
ALTER USER root@localhost IDENTIFIED BY '$quoted';
CREATE DATABASE $MYSQL_DATABASE;
SQL
  for script in /docker-entrypoint-initdb.d/*.sh; do "$script"; done
  kill $!
  wait $!
fi
exec "$@"
