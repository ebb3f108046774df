"""The command `handrail`: asking models, looking at what they did, and answering calls that wait for a person.

This file is its door and imports nothing but what tells people how to install the rest.
"""

from __future__ import annotations

import gc
import logging
import os
import sys
from types import FrameType

from handrail.core.errors import MissingExtra


def main() -> int:
    """Run the command line and return its exit code: 0 fine, 1 a problem, 2 wrong usage, 130 Ctrl-C."""
    if sys.argv[1:2] == ["hook"]:
        _answer_hook()
    from importlib.util import find_spec

    if find_spec("click") is None or find_spec("rich") is None:
        print(MissingExtra("the command line", "cli"), file=sys.stderr)
        return 1
    import signal

    from handrail.cli.root import root

    # What goes wrong with a server or a tool is told where it matters; once more in the log would be noise on a
    # terminal. `serve` has a log.
    for quiet in ("handrail.mcp", "handrail.execute"):
        logging.getLogger(quiet).addHandler(logging.NullHandler())
    if signal.getsignal(signal.SIGHUP) is signal.SIG_DFL:  # else it is ignored, as under nohup
        signal.signal(signal.SIGHUP, _hang_up)
    root(prog_name="handrail")  # raises SystemExit, as click does
    return 0


def _answer_hook() -> None:
    """Answer a hook and end the process, unless the command line has to read what was written. A coding agent waits for
    it at every call, so it goes without click, without collecting garbage, and without tearing everything down."""
    gc.disable()
    _load_msgspec()
    from handrail.cli.hook.process import quick_hook

    if (code := quick_hook(sys.argv[1:])) is not None:
        os._exit(code)  # the answer is written and the journal closed
    gc.enable()


def _load_msgspec() -> None:
    """Load it without `typing_extensions`, which it prefers where that is installed: Python has all that it wants of
    it, and a hook is 6 ms quicker."""
    if not {"msgspec", "typing_extensions"} & sys.modules.keys():
        sys.modules["typing_extensions"] = None  # type: ignore[assignment]
        try:
            import msgspec  # noqa: F401
        finally:
            del sys.modules["typing_extensions"]


def _hang_up(number: int, frame: FrameType | None) -> None:
    """The terminal is closed: leave as on Ctrl-D, so that servers are ended and the record is closed."""
    import signal

    signal.signal(number, signal.SIG_IGN)
    raise SystemExit(128 + number)
