"""`python -m fuzz [--seconds N] [--seed N] [target …]`: 0 if no law was broken, 1 if one was, 2 for a wrong target."""

from __future__ import annotations

import argparse
import sys
import time

from fuzz.run import examine_all
from fuzz.targets import TARGETS


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m fuzz", description="Feed every decoder what nobody would send.")
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--seed", type=int, default=None, help="to have the same run again")
    parser.add_argument("targets", nargs="*", metavar="target", help=", ".join(TARGETS))
    options = parser.parse_args(arguments)
    unknown = sorted(set(options.targets) - set(TARGETS))
    if unknown:
        sys.stderr.write(f"no target {', '.join(unknown)}; there are: {', '.join(TARGETS)}\n")
        return 2
    seed = time.time_ns() % 10**9 if options.seed is None else options.seed
    chosen = [target for name, target in TARGETS.items() if name in (options.targets or TARGETS)]
    _say(f"{len(chosen)} targets, {options.seconds:g} s, --seed {seed}")
    found = examine_all(chosen, options.seconds, _say, seed)
    _say(f"{len(found)} findings" if found else "nothing found")
    return 1 if found else 0


def _say(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
