#!/bin/sh
# The server's image runs this once, when it creates its data: every process of the bench may log in with its own name, the only name that
# InnoDB's deadlock reports show.
set -eu
quoted=$(printf %s "$STALLBENCH_PASSWORD" | sed "s/[\\\\']/\\\\&/g")
MYSQL_PWD=$STALLBENCH_PASSWORD mysql --user=root <<SQL
CREATE USER ''@'%' IDENTIFIED BY '$quoted';
GRANT ALL ON *.* TO ''@'%' WITH GRANT OPTION;
SQL
