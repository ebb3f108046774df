#!/usr/bin/env bash
# Chromium, for the tests that open a page: what is there, or Debian's. Without it those tests are skipped, and say so.
set -euo pipefail
command -v chromium >/dev/null && exit 0
if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
  echo "· installing chromium"
  apt-get update -qq && apt-get install -y -qq --no-install-recommends chromium >/dev/null && exit 0
fi
echo "there is no chromium, and it could not be installed: no page is opened in the tests" >&2
