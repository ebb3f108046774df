"""Programs that are forked off one process begin, talk and end as those that Python starts."""

from __future__ import annotations

import signal
import subprocess
from functools import partial
from pathlib import Path

import pytest

from tests import prestarted
from tests.polling import blocking_until
from tests.processes import is_running

PROGRAM = """
import os, signal, sys
print(sys.argv[1:], sys.stdin.readline().strip(), os.getcwd(), os.environ.get("WHO"), os.getpid(), flush=True)
if "die" in sys.argv:
    os.kill(os.getpid(), signal.SIGKILL)
if "wait" in sys.argv:
    signal.pause()
sys.exit(7)
"""


def started(folder: Path, *words: str) -> subprocess.Popen[str]:
    (folder / "program.py").write_text(PROGRAM)
    program = subprocess.Popen(
        [*prestarted.command(), "program.py", *words],
        cwd=folder,
        env={"WHO": "ada"},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert program.stdin is not None
    program.stdin.write("hello\n")
    program.stdin.flush()
    return program


@pytest.mark.parametrize(("words", "status"), [(["a", "b"], 7), (["die"], -signal.SIGKILL)])
def test_it_has_what_it_was_given_and_its_end_is_told(words: list[str], status: int, tmp_path: Path) -> None:
    with started(tmp_path, *words) as program:
        said, _ = program.communicate(timeout=60)
    assert said.rsplit(" ", 1)[0] == f"{words} hello {tmp_path} ada"
    assert program.returncode == status


def test_a_signal_reaches_it_and_who_kills_the_client_kills_it(tmp_path: Path) -> None:
    for number in (signal.SIGTERM, signal.SIGKILL):
        with started(tmp_path, "wait") as program:
            assert program.stdout is not None
            child = int(program.stdout.readline().rsplit(" ", 1)[1])
            program.send_signal(number)
            assert program.wait(60) == -number
            assert blocking_until(partial(_has_ended, child))


def _has_ended(pid: int) -> bool:
    return not is_running(pid)
