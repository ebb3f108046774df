#!/usr/bin/env bash
# Installs packages of Debian: `apt_install.sh PACKAGE…`. Fails where that cannot be done: elsewhere, or not as root.
set -euo pipefail
cd "$(dirname "$0")/.."
[ "$(id -u)" = 0 ] && command -v apt-get >/dev/null || exit 1
export DEBIAN_FRONTEND=noninteractive
watched() { "${PYTHON:-.venv/bin/python}" scripts/run_watched.py "$@"; }
watched "Debian's lists of packages" apt-get update -q
# Status-Fd tells how far a download is; from the first package that is unpacked on nothing is fetched any more.
watched --local-after "pmstatus:" "$* (Debian)" apt-get install -y -q --no-install-recommends -o APT::Status-Fd=1 "$@"
