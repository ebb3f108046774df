#!/usr/bin/env bash
# Apertium with English and Spanish, for the tests that translate: what is there, or Debian's. Without it those tests are skipped, and say so.
set -euo pipefail
# Not `grep -q`: that hangs up at the first line it finds, and then pipefail counts the other side as failed.
apertium -l 2>/dev/null | grep -x ' *eng-spa' >/dev/null && exit 0
"$(dirname "$0")/apt_install.sh" apertium apertium-eng-spa && exit 0
echo "there is no apertium-eng-spa, and it could not be installed: no test translates with a real translator" >&2
