"""Commands that fetch something: their progress is shown, and one that says nothing is given up."""

from __future__ import annotations

import io
import os
import subprocess
import sys
from pathlib import Path

import pytest

from handrail.core.watched_command import CommandSilent, ProgressLine, run_pip, run_watched

SCRIPT = Path(__file__).parents[2] / "scripts" / "run_watched.py"
MUTE = "import os, sys; sys.stdout.flush(); os.read(os.pipe()[0], 1)"
"""It waits for ever for what nobody writes."""


def python(code: str) -> list[str]:
    return [sys.executable, "-c", code]


def test_a_command_that_says_nothing_is_given_up_with_a_sentence() -> None:
    with pytest.raises(CommandSilent, match=r"gave up fetching the moon: nothing came for 0\.05 s; check that"):
        run_watched(python(MUTE), "the moon", silence=0.05)


def test_a_command_that_falls_silent_is_given_up_after_what_it_said_was_shown() -> None:
    shown: list[str] = []
    code = f"import os; print(os.getpid(), flush=True); {MUTE}"

    with pytest.raises(CommandSilent):
        run_watched(python(code), "it", silence=5, show=shown.append)

    with pytest.raises(ProcessLookupError):  # and no process of it is left
        os.kill(int(shown[0]), 0)


def test_a_command_that_speaks_runs_to_its_end() -> None:
    shown: list[str] = []
    code = "import sys; print('one'); print('two', file=sys.stderr); print('three', end=''); sys.exit(3)"

    done = run_watched(
        python(f"import sys; sys.stdout.reconfigure(line_buffering=True); {code}"), "it", show=shown.append
    )

    assert (done.code, shown) == (3, ["one", "two", "three"])
    assert done.lines == ("one", "two", "three")


def test_the_noise_of_a_configured_pip_is_not_shown() -> None:
    shown: list[str] = []
    said = "WARNING: Location 'file:///x/y/' is ignored: it is neither a file nor a directory.\\nCollecting x"

    run_watched(python(f"print({said!r}.replace('\\\\n', chr(10)))"), "it", show=shown.append)

    assert shown == ["Collecting x"]


@pytest.mark.parametrize(
    ("said", "reason"),
    [
        ("Collecting x\nERROR: no matching distribution\nbye", "ERROR: no matching distribution"),
        (
            "npm http fetch\nnpm error code ECONNREFUSED\nnpm error errno",
            "npm error code ECONNREFUSED\nnpm error errno",
        ),
        ("one\ntwo", "one\ntwo"),
        ("", "it ended with code 1 and said nothing"),
    ],
)
def test_a_failure_has_its_reason(said: str, reason: str) -> None:
    done = run_watched(python(f"import sys; print({said!r}); sys.exit(1)"), "it")

    assert done.reason == reason


def test_pip_of_this_interpreter_runs_so() -> None:
    pytest.importorskip("pip", reason="this environment has no pip")

    done = run_pip(["download", "--no-index", "--no-deps", "there-is-no-such-package"], "it")

    assert done.code == 1
    assert "No matching distribution found for there-is-no-such-package" in done.reason


def test_a_module_in_the_current_folder_is_not_run_in_the_place_of_pip(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("pip", reason="this environment has no pip")
    (tmp_path / "pip.py").write_text("open('ran', 'w').close()")
    monkeypatch.chdir(tmp_path)

    run_pip(["--version"], "it")

    assert not (tmp_path / "ran").exists()


def test_the_script_says_what_it_fetches_and_gives_up_with_a_sentence() -> None:
    """It needs nothing installed: neither site-packages nor the current folder."""
    command = [sys.executable, "-I", "-S", str(SCRIPT), "--silence", "0.05", "the moon", *python(MUTE)]

    done = subprocess.run(command, capture_output=True, text=True)

    assert (done.returncode, done.stdout) == (1, "· fetching the moon\n")
    assert done.stderr.startswith("gave up fetching the moon: nothing came for 0.05 s; check that this machine")
    assert done.stderr.count("\n") == 1


def test_where_nobody_watches_progress_is_a_line_now_and_then() -> None:
    out, now = io.StringIO(), iter([0.0, 1.0, 11.0, 11.0, 12.0])

    with ProgressLine(out, clock=lambda: next(now)) as progress:
        for line in ("Collecting a", "Collecting b", "Collecting c"):
            progress.show(line)

    assert out.getvalue() == "  Collecting b\n"


def test_on_a_terminal_progress_is_one_line_that_is_gone_at_the_end() -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    out = Terminal()

    with ProgressLine(out) as progress:
        progress.show("Collecting a")

    assert out.getvalue() == "\r\x1b[K  Collecting a\r\x1b[K"
