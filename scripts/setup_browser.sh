#!/usr/bin/env bash
# Chromium, for the tests that open a page: what is there, or Debian's. Without it those tests are skipped, and say so.
set -euo pipefail
command -v chromium >/dev/null && exit 0
"$(dirname "$0")/apt_install.sh" chromium && exit 0
echo "there is no chromium, and it could not be installed: no page is opened in the tests" >&2
