"""Runs every benchmark, one after the other: `make bench`. `python -m bench executor rlm` runs two of them.

One that misses its aim ends with 1; the others run all the same.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from pathlib import Path

from bench.turns.run import main as turns

SCRIPTS = {path.stem.removeprefix("bench_"): path for path in sorted(Path(__file__).parent.glob("bench_*.py"))}


def main() -> None:
    if sys.argv[1:2] == ["turns"]:
        turns(sys.argv[2:])
        return
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"{', '.join(SCRIPTS)}, or turns: against peers")
    names = parser.parse_args().names or [*SCRIPTS, "turns"]
    if unknown := sorted(set(names) - {*SCRIPTS, "turns"}):
        parser.error(f"there is no {', '.join(unknown)}; there are {', '.join(SCRIPTS)} and turns")
    missed = [name for name in names if not _met(name)]
    if missed:
        sys.exit(f"short of an aim, or broken: {', '.join(missed)}")


def _met(name: str) -> bool:
    if name == "turns":
        turns([])
        return True
    print(f"\n── {name} " + "─" * 60, file=sys.stderr)
    return not subprocess.run([sys.executable, str(SCRIPTS[name])], check=False, stdout=subprocess.DEVNULL).returncode


if __name__ == "__main__":
    main()
