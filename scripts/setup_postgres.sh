#!/usr/bin/env bash
# PostgreSQL 15 or later, for the tests of a shared state: what is there, or Debian's. Without it those tests are skipped, and say so.
set -euo pipefail
found() { "${PYTHON:-.venv/bin/python}" -m tests.postgres >/dev/null 2>&1; }
cd "$(dirname "$0")/.."
found && exit 0
# The package would start a server of its own, which no test uses.
mkdir -p /etc/postgresql-common 2>/dev/null && [ ! -e /etc/postgresql-common/createcluster.conf ] \
    && echo "create_main_cluster = false" 2>/dev/null >/etc/postgresql-common/createcluster.conf
scripts/apt_install.sh postgresql && found && exit 0
echo "there is no PostgreSQL from 15 on, and it could not be installed: no test keeps a state in it" >&2
