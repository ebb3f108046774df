"""Runs every benchmark, one after the other: `make bench`."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parent


def main() -> None:
    for script in sorted(HERE.glob("bench_*.py")):
        print(f"\n── {script.stem.removeprefix('bench_')} " + "─" * 60, file=sys.stderr)
        subprocess.run([sys.executable, str(script)], check=True, stdout=subprocess.DEVNULL)


if __name__ == "__main__":
    main()
