#!/bin/sh
# Makes up a password, if none was made before, and lets the bench's user write into ./runs, if Docker made that folder.
set -eu
if [ ! -s /secrets/password ]; then
  python -c 'import secrets; print(secrets.token_urlsafe(18))' >/secrets/password
  chmod 644 /secrets/password
fi
if [ "$(stat -c %u /runs)" = 0 ]; then chown stallbench /runs; fi
