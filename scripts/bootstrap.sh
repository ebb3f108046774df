#!/usr/bin/env bash
# Makes .venv and installs what a target needs into it: `runtime` for the demo, `dev` for tests and checks.
set -euo pipefail
cd "$(dirname "$0")/.."
want=${1:?runtime or dev}
python=${PYTHON:-$(command -v python3.11 || command -v python3)}

"$python" - <<'PY' || { echo "handrail needs Python 3.11 or newer; set PYTHON=/path/to/python3" >&2; exit 1; }
import sys
sys.exit(sys.version_info < (3, 11))
PY

if [ ! -x .venv/bin/python ]; then
  echo "· making .venv"
  if ! "$python" -m venv .venv >/tmp/handrail-venv.$$ 2>&1; then
    # Debian keeps venv in a package of its own.
    if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
      apt-get update -qq && apt-get install -y -qq python3-venv >/dev/null
      rm -rf .venv && "$python" -m venv .venv
    else
      cat /tmp/handrail-venv.$$ >&2
      echo "could not make .venv; on Debian run: apt-get install python3-venv" >&2
      exit 1
    fi
  fi
  rm -f /tmp/handrail-venv.$$
fi

pip() { .venv/bin/python -m pip --disable-pip-version-check --quiet "$@"; }
case "$want" in
  runtime)
    echo "· installing handrail"
    pip install -c constraints.txt -e packages/handrail-local -e '.[cli,local]' ;;
  dev)
    echo "· installing handrail with its development tools"
    pip install --upgrade -c constraints.txt pip
    pip install -c constraints.txt -e packages/handrail-local -e '.[all]' --group dev ;;
  *) echo "unknown: $want" >&2; exit 2 ;;
esac
touch ".venv/.$want"
