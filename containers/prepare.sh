#!/bin/sh
# Generates a password if there is none, and gives ./runs to the bench's user if Docker created that folder.
set -eu
if [ ! -s /secrets/password ]; then
  python -c 'import secrets; print(secrets.token_urlsafe(18))' >/secrets/password
  chmod 644 /secrets/password
fi
if [ "$(stat -c %u /runs)" = 0 ]; then chown stallbench /runs; fi
