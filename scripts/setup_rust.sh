#!/usr/bin/env bash
# Rust, for the test that compiles a snapshot: what is there, or Debian's. Without either that test is skipped, and says so.
set -euo pipefail
for folder in ${PATH//:/ } "${CARGO_HOME:-$HOME/.cargo}/bin"; do
  [ -x "$folder/rustc" ] && exit 0
done
"$(dirname "$0")/apt_install.sh" rustc && exit 0
echo "there is no rustc, and it could not be installed: the Rust snapshot is not compiled in the tests" >&2
