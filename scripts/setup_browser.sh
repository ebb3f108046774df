#!/usr/bin/env bash
# Chromium, for the tests that open a page: Debian's without a window, which is three times as light, or what is there.
# Without any those tests are skipped, and say so.
set -euo pipefail
command -v chromium-headless-shell >/dev/null && exit 0
"$(dirname "$0")/apt_install.sh" chromium-headless-shell && exit 0
command -v chromium >/dev/null && exit 0
echo "there is no chromium, and it could not be installed: no page is opened in the tests" >&2
