#!/usr/bin/env bash
# Makes .venv and installs what a target needs into it: `runtime` for the demo, `dev` for tests and checks, `site` for
# the documentation. PYTHON=/path/to/python3 chooses the interpreter; else it is the first on the PATH that is new enough.
set -euo pipefail
cd "$(dirname "$0")/.."
want=${1:?runtime, dev or site}

new_enough() { "$1" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; }
# Which Python it is, the same for an interpreter and for an environment that it made.
identity() { "$1" -c 'import os, sys; print(sys.version.split()[0], os.path.realpath(sys.base_prefix))' 2>/dev/null; }

if [ -n "${PYTHON:-}" ]; then
  python=$(command -v "$PYTHON") || { echo "PYTHON=$PYTHON: there is no such program" >&2; exit 1; }
  new_enough "$python" || { echo "PYTHON=$PYTHON is not Python 3.11 or newer; handrail needs that" >&2; exit 1; }
  if [ -e .venv ] && [ "$(identity .venv/bin/python || true)" != "$(identity "$python")" ]; then
    echo "· .venv was made by another Python; making it again with $("$python" -V) ($python)"
    rm -rf .venv
  fi
elif .venv/bin/python -c '' 2>/dev/null; then
  python=.venv/bin/python
else
  python=
  for name in python3 python3.14 python3.13 python3.12 python3.11 python; do
    found=$(command -v "$name") && new_enough "$found" && python=$found && break
  done
  [ -n "$python" ] || { echo "handrail needs Python 3.11 or newer; set PYTHON=/path/to/python3" >&2; exit 1; }
  rm -rf .venv  # of a Python that is gone
fi

# `make` asks each time where PYTHON is given: there is nothing to do if nothing changed since.
stamp=.venv/.$want
if [ -e "$stamp" ] && [ ! pyproject.toml -nt "$stamp" ] && [ ! constraints.txt -nt "$stamp" ] && [ ! "$0" -nt "$stamp" ]; then
  exit 0
fi

if [ ! -e .venv ]; then
  echo "· making .venv with $("$python" -V) ($python)"
  if ! said=$("$python" -m venv .venv 2>&1); then
    rm -rf .venv
    # Debian keeps venv in a package of its own.
    if ! PYTHON=$python scripts/apt_install.sh python3-venv || ! "$python" -m venv .venv; then
      rm -rf .venv
      echo "$said" >&2
      echo "could not make .venv; on Debian run: apt-get install python3-venv" >&2
      exit 1
    fi
  fi
fi

pip() {  # WHAT ARGUMENTS…
  local what=$1
  shift
  .venv/bin/python scripts/run_watched.py --local-after "Installing collected packages" "$what" \
    .venv/bin/python -m pip --disable-pip-version-check --no-input install -c constraints.txt "$@"
}
# A pip that installs dependency groups and tells its progress.
if ! .venv/bin/python -c 'import pip, sys; sys.exit(tuple(map(int, pip.__version__.split(".")[:2])) < (25, 1))'; then
  pip "a newer pip" --upgrade pip
fi
loud=(--verbose --progress-bar raw)
case "$want" in
  runtime) pip "handrail's dependencies" "${loud[@]}" -e packages/handrail-local -e '.[cli,local]' ;;
  dev)
    pip "handrail's dependencies and development tools" "${loud[@]}" -e packages/handrail-local -e '.[all]' --group dev
    # It wants an older websockets, for voice, which is not used here; the rest of what it needs is there.
    pip "openai-agents" "${loud[@]}" --no-deps openai-agents==0.24.0
    ;;
  site) pip "what builds the site" "${loud[@]}" --group site ;;
  *) echo "unknown: $want" >&2; exit 2 ;;
esac
touch "$stamp"
