"""`python -m conformance [server|client] [--only NAME] [--revision SET] [--write]`"""

from __future__ import annotations

import argparse
import sys
from datetime import date

from conformance.report import line, table, write
from conformance.run import chosen, run_all
from conformance.suite import SETS, Role


def main() -> int:
    parser = argparse.ArgumentParser(prog="conformance", description="Run the official MCP conformance suite.")
    parser.add_argument("role", nargs="?", choices=("server", "client"), help="both when left out")
    parser.add_argument("--only", default="", help="scenarios whose names hold this")
    parser.add_argument("--revision", choices=SETS, help="one set; all when left out")
    parser.add_argument("--write", action="store_true", help="put the figures into docs/conformance.md")
    asked = parser.parse_args()
    if asked.write and (asked.role or asked.only or asked.revision):
        parser.error("only the whole suite is worth writing down")
    roles: tuple[Role, ...] = (asked.role,) if asked.role else ("server", "client")
    groups = (asked.revision,) if asked.revision else SETS
    wanted = [scenario for role in roles for scenario in chosen(role, groups, asked.only)]
    if not wanted:
        parser.error(f"no scenario has {asked.only!r} in its name")
    scores = run_all(wanted, lambda score: print(line(score), flush=True))
    print(f"\n{table(scores)}")
    if asked.write:
        write(scores, date.today())
    return 0 if all(score.ok or score.hollow for score in scores) else 1


if __name__ == "__main__":
    sys.exit(main())
