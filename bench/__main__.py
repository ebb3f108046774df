"""Runs every benchmark, one after the other: `make bench`. `python -m bench turns …` runs the one against peers."""

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
    for script in sorted(HERE.glob("bench_*.py")):
        print(f"\n── {script.stem.removeprefix('bench_')} " + "─" * 60, file=sys.stderr)
        subprocess.run([sys.executable, str(script)], check=True, stdout=subprocess.DEVNULL)
    turns([])


if __name__ == "__main__":
    main()
