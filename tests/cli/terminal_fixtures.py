"""A folder with tools and a scripted model, for commands that work with both; and a person at a terminal."""

from __future__ import annotations

import os
import pty
import re
import select
import subprocess
import termios
from collections.abc import Callable, Sequence
from pathlib import Path

from tests.approved import approve
from tests.cli.journal_fixtures import command, environment
from tests.replies import HELLO, LOG_IN, PAY, calls

PATIENCE = 30
"""Times two seconds in which a program may say nothing."""

TOOLS = '''
import os
import sys
import threading
from pathlib import Path

from handrail import Invocation, Secret, tool


def _held(name: str) -> None:
    """Say that the work is under way, and stay there if a test wants that."""
    if os.environ.get("HOLD") == name:
        print("under way", file=sys.stderr, flush=True)
        threading.Event().wait()


@tool(side_effects=False)
def add(a: int, b: int) -> int:
    """Add two numbers."""
    with Path("added.txt").open("a") as file:
        file.write(f"{a} {b}\\n")
    _held("add")
    return a + b


@tool(side_effects=True)
def pay(to: str, amount: int) -> str:
    """Pay someone."""
    with Path("paid.txt").open("a") as file:
        file.write(f"{to} {amount}\\n")
    _held("pay")
    return f"paid {amount} to {to}"


@tool(side_effects=True)
def log_in(user: str, password: Secret) -> str:
    """Log somebody in."""
    return "welcome"


@tool(side_effects=False)
async def count(context: Invocation) -> str:
    """Count, and say how far."""
    context.progress(1, 2, "half")
    return "counted"
'''

SCRIPT = (
    calls("sum", "add", "a = 1, b = 2", first="Let me see.", then="It is 3.")
    + PAY
    + LOG_IN
    + calls("count", "count", then="Counted.")
    + HELLO
)

CONFIG = """
default_model = "demo"
ensembles = ["box.toml"]

[models.demo]
provider = "scripted"
model = "script.toml"
"""

ENSEMBLE = """
[ensemble]
name = "box"

[[invokers]]
name = "add"
python = "talk_tools:add"

[[invokers]]
name = "pay"
python = "talk_tools:pay"
"""

WITH = ("-m", "scripted:script.toml", "--tools", "talk_tools.py")
"""The options that use the folder."""
_STYLES = re.compile(r"\x1b\[[0-9;?]*[a-zA-Z]")


def fill(folder: Path) -> Path:
    (folder / "talk_tools.py").write_text(TOOLS, encoding="utf-8")
    (folder / "script.toml").write_text(SCRIPT, encoding="utf-8")
    return folder


def configure(folder: Path, config: str = CONFIG, **environ: str) -> Path:
    """An ensemble and a configuration, which is approved."""
    (folder / "box.toml").write_text(ENSEMBLE, encoding="utf-8")
    (folder / "handrail.toml").write_text(config, encoding="utf-8")
    return approve(folder / "handrail.toml", environ=environ)


def lines_of(path: Path) -> list[str]:
    return path.read_text(encoding="utf-8").splitlines() if path.exists() else []


def run_of(told: str) -> str:
    found = re.search(r"run_\w+", told)
    assert found is not None
    return found[0]


def dialogue(arguments: Sequence[str], *steps: tuple[str, str], **env: str) -> tuple[int, str]:
    """What a person sees who types each answer when its prompt has appeared, and the exit code."""
    return program_dialogue(command(*arguments), *steps, **env)


def program_dialogue(
    argv: Sequence[str], *steps: tuple[str, str | Callable[[], object]], **env: str
) -> tuple[int, str]:
    """The same with any program. What is done when a prompt has appeared may be a function, too."""
    ours, theirs = pty.openpty()
    termios.tcsetwinsize(theirs, (40, 120))
    quiet = {"TERM": "dumb", "VISUAL": "", "EDITOR": "", **env}
    with subprocess.Popen(
        argv,
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        env=environment(**quiet),
        start_new_session=True,
    ) as process:
        os.close(theirs)
        shown, looked, left, last = b"", 0, list(steps), ""
        while (piece := _read(ours, process, last, shown)) != b"":
            shown += piece
            while left and (at := shown.find(left[0][0].encode(), looked)) >= 0:
                looked = at + len(left[0][0])
                action = left.pop(0)[1]
                last = action if isinstance(action, str) else ""
                if isinstance(action, str):
                    _type(ours, process.pid, action)
                else:
                    action()
    os.close(ours)
    assert not left, f"never saw {left[0][0]!r} in {shown.decode()!r}"
    return process.returncode, _STYLES.sub("", shown.decode().replace("\r\n", "\n"))


def _type(terminal: int, pid: int, keys: str) -> None:
    if keys == "^C":
        os.killpg(pid, 2)  # the terminal is not the controlling one of the child, so the key would reach nobody
    else:
        os.write(terminal, keys.encode())


def _read(terminal: int, process: subprocess.Popen[bytes], last: str, shown: bytes) -> bytes:
    """What comes next, or nothing at the end.

    Python notices a Ctrl-C that arrives between a prompt and the waiting for a line only with the
    next key. A person presses again, and so does this.
    """
    for _ in range(PATIENCE):
        if select.select([terminal], [], [], 2)[0]:
            break
        if last == "^C":
            _type(terminal, process.pid, last)
    else:
        process.kill()
        raise AssertionError(f"nothing more came after {shown.decode()!r}")
    try:
        return os.read(terminal, 4096)
    except OSError:  # what Linux says when the other end is closed
        return b""
