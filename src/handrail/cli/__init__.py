"""The command `handrail`: asking models, looking at what they did, and giving a person's word.

This file is its door and imports nothing but what tells people how to install the rest.
"""

from __future__ import annotations

import logging
import signal
import sys
from importlib.util import find_spec
from types import FrameType

from handrail.core.errors import MissingExtra


def main() -> int:
    """Run the command line and return its exit code: 0 fine, 1 a problem, 2 wrong usage, 130 Ctrl-C."""
    if find_spec("click") is None or find_spec("rich") is None:
        print(MissingExtra("the command line", "cli"), file=sys.stderr)
        return 1
    from handrail.cli.root import root

    # What goes wrong with a server or a tool is told where it matters; once more in the log would be noise on a
    # terminal. `serve` has a log.
    for quiet in ("handrail.mcp", "handrail.execute"):
        logging.getLogger(quiet).addHandler(logging.NullHandler())
    if signal.getsignal(signal.SIGHUP) is signal.SIG_DFL:  # else it is ignored, as under nohup
        signal.signal(signal.SIGHUP, _hang_up)
    root(prog_name="handrail")  # raises SystemExit, as click does
    return 0


def _hang_up(number: int, frame: FrameType | None) -> None:
    """The terminal is closed: leave as on Ctrl-D, so that servers are ended and the record is closed."""
    signal.signal(number, signal.SIG_IGN)
    raise SystemExit(128 + number)
