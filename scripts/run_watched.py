"""Run a command that fetches something from a registry: `run_watched.py [--local-after TEXT] WHAT COMMAND…`.

It says what is fetched, shows progress, prints only the end of what a failing command said, and gives up with a
sentence after a minute without any output (`--silence SECONDS`). It runs with any Python from 3.11 on: nothing needs
to be installed.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "src"))

from handrail.core.watched_command import SILENCE, CommandSilent, ProgressLine, run_watched


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--silence", type=float, default=SILENCE, metavar="SECONDS")
    parser.add_argument("--local-after", default="", metavar="TEXT")
    parser.add_argument("what")
    parser.add_argument("command", nargs=argparse.REMAINDER)
    asked = parser.parse_args()
    print(f"· fetching {asked.what}", flush=True)
    try:
        with ProgressLine() as progress:
            done = run_watched(
                asked.command, asked.what, silence=asked.silence, show=progress.show, local_after=asked.local_after
            )
    except CommandSilent as error:
        print(error, file=sys.stderr)
        return 1
    if done.code:
        print(f"could not fetch {asked.what}:\n{done.reason}", file=sys.stderr)
    return done.code


if __name__ == "__main__":
    sys.exit(main())
