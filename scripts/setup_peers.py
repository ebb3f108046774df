"""Make the environments of the frameworks that handrail is compared with, unless they are there.

Each has its own under `.cache/bench`, from the exact versions in `bench/peers/*.txt`; the
benchmark uses the same ones. `make` calls it before the tests: the programs of
`docs/migrating/` and `docs/comparison.md` run there.
"""

from __future__ import annotations

import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from bench.turns.homes import PEERS, PROGRAMS, python
from bench.turns.processes import Lost


def main() -> int:
    wanted = (*PEERS, *PROGRAMS)
    with ThreadPoolExecutor(len(wanted)) as together:
        lost = [why for why in together.map(_made, wanted) if why]
    for why in lost:
        print(why, file=sys.stderr)
    return 1 if lost else 0


def _made(name: str) -> str:
    """Why it did not work; empty when it did."""
    try:
        print(f"there: {python(name).parents[1]}")
    except Lost as lost:
        return str(lost)
    return ""


if __name__ == "__main__":
    sys.exit(main())
