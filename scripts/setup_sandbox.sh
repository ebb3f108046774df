#!/usr/bin/env bash
# What the os sandbox needs of the system: what is there, or Debian's. Without it the tests of that sandbox are skipped, and say so.
set -euo pipefail
missing=()
command -v bwrap >/dev/null || missing+=(bubblewrap)
# Not `grep -q`: that hangs up at the first line it finds, and then pipefail counts the other side as failed.
{ /sbin/ldconfig -p 2>/dev/null || ldconfig -p; } | grep 'libseccomp\.so\.2' >/dev/null || missing+=(libseccomp2)
[ ${#missing[@]} = 0 ] && exit 0
"$(dirname "$0")/apt_install.sh" "${missing[@]}" && exit 0
echo "there is no ${missing[*]}, and it could not be installed: the os sandbox is not tested" >&2
