"""Runs every benchmark, one after the other: `make bench`. `python -m bench executor rlm` runs two of them.

One that misses its aim ends with 1; the others run all the same.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from pathlib import Path

from bench.injection.run import main as injection
from bench.turns.run import main as turns

SCRIPTS = {path.stem.removeprefix("bench_"): path for path in sorted(Path(__file__).parent.glob("bench_*.py"))}
PACKAGES = {"injection": injection, "turns": turns}


def main() -> None:
    if sys.argv[1:2] and sys.argv[1] in PACKAGES:
        PACKAGES[sys.argv[1]](sys.argv[2:])
        return
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"{', '.join([*SCRIPTS, *PACKAGES])}")
    names = parser.parse_args().names or [*SCRIPTS, *PACKAGES]
    if unknown := sorted(set(names) - {*SCRIPTS, *PACKAGES}):
        parser.error(f"there is no {', '.join(unknown)}; there are {', '.join([*SCRIPTS, *PACKAGES])}")
    missed = [name for name in names if not _met(name)]
    if missed:
        sys.exit(f"short of an aim, or broken: {', '.join(missed)}")


def _met(name: str) -> bool:
    if name in PACKAGES:
        PACKAGES[name]([])
        return True
    print(f"\n── {name} " + "─" * 60, file=sys.stderr)
    return not subprocess.run([sys.executable, str(SCRIPTS[name])], check=False, stdout=subprocess.DEVNULL).returncode


if __name__ == "__main__":
    main()
