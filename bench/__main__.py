"""Runs every benchmark, one after the other: `make bench`. `python -m bench turns …` runs the one against peers.

One that misses its aim ends with 1; the others run all the same.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from bench.turns.run import main as turns

HERE = Path(__file__).parent


def main() -> None:
    if sys.argv[1:2] == ["turns"]:
        turns(sys.argv[2:])
        return
    missed = []
    for script in sorted(HERE.glob("bench_*.py")):
        name = script.stem.removeprefix("bench_")
        print(f"\n── {name} " + "─" * 60, file=sys.stderr)
        if subprocess.run([sys.executable, str(script)], check=False, stdout=subprocess.DEVNULL).returncode:
            missed.append(name)
    turns([])
    if missed:
        sys.exit(f"short of an aim, or broken: {', '.join(missed)}")


if __name__ == "__main__":
    main()
