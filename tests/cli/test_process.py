"""The command as a process: exit codes, pipes, terminals, what it loads."""

from __future__ import annotations

import os
import pty
import re
import select
import signal
import subprocess
import sys
import termios

import pytest

import handrail
from handrail.core.installation import install_command
from tests.cli.journal_fixtures import Journal, command, environment


def done(*arguments: str, **env: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command(*arguments),
        capture_output=True,
        text=True,
        check=False,
        env=environment(**env),
        stdin=subprocess.DEVNULL,
    )


def test_the_version_is_the_package_s() -> None:
    assert done("--version").stdout == f"handrail {handrail.__version__}\n"


def test_a_problem_is_one_line_and_1_and_wrong_usage_is_2(journal: Journal) -> None:
    problem, usage = done("proof", "show", "nothing"), done("proof", "show", "--paint")

    assert (problem.returncode, problem.stdout, problem.stderr.count("\n")) == (1, "", 1)
    assert (usage.returncode, usage.stdout) == (2, "")
    assert "Traceback" not in problem.stderr + usage.stderr


@pytest.mark.parametrize("missing", ["click", "rich"])
def test_without_the_extra_one_line_says_how_to_install_it(missing: str) -> None:
    code = f"import sys; sys.modules[{missing!r}] = None; from handrail.cli import main; sys.exit(main())"

    out = subprocess.run([sys.executable, "-c", code, "proof", "list"], capture_output=True, text=True, check=False)

    assert (out.returncode, out.stdout, out.stderr.count("\n")) == (1, "", 1)
    assert out.stderr.endswith(f"run: {install_command('cli')}\n")


def test_help_loads_nothing_that_is_not_needed() -> None:
    code = (
        "import sys; from handrail.cli.root import root; root(['--help'], standalone_mode=False);"
        "print([name for name in sys.argv[1:] if name in sys.modules], file=sys.stderr)"
    )
    heavy = ["sqlite3", "cryptography", "rich", "asyncio", "msgspec", "textual", "starlette"]
    heavy += ["handrail.journal", "handrail.desk", "handrail.node.server", "handrail.desk.tui"]

    out = subprocess.run([sys.executable, "-c", code, *heavy], capture_output=True, text=True, check=True)

    assert out.stderr == "[]\n"


def test_a_reader_that_goes_away_is_no_reason_to_complain(journal: Journal) -> None:
    read, write = os.pipe()
    os.close(read)
    with subprocess.Popen(
        command("proof", "show", "run_sums", "--json"), stdout=write, stderr=subprocess.PIPE, text=True
    ) as process:
        os.close(write)
        _, errors = process.communicate()

    assert (process.returncode, errors) == (141, "")


def test_ctrl_c_ends_with_130_and_no_traceback(journal: Journal) -> None:
    with subprocess.Popen(
        command("proof", "erase", "run_sums"),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as process:
        assert process.stderr is not None
        said = b""
        while b"[y/N]" not in said:
            piece = os.read(process.stderr.fileno(), 1024)
            assert piece, said
            said += piece
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate()

    assert (process.returncode, b"Traceback" in errors) == (130, False)


_STYLES = re.compile(r"\x1b\[[0-9;]*m")


def on_terminal(*arguments: str, width: int = 100, typed: str = "", until: str = "") -> tuple[int, str]:
    """What a person sees, and the exit code."""
    ours, theirs = pty.openpty()
    termios.tcsetwinsize(theirs, (40, width))
    with subprocess.Popen(
        command(*arguments), stdin=theirs, stdout=theirs, stderr=theirs, env=environment(TERM="xterm")
    ) as process:
        os.close(theirs)
        shown = b""
        while True:
            assert select.select([ours], [], [], 60)[0], f"nothing more came after {shown.decode()!r}"
            try:
                piece = os.read(ours, 4096)
            except OSError:  # what Linux says when the other end is closed
                break
            if not piece:
                break
            shown += piece
            if typed and until.encode() in shown:
                os.write(ours, typed.encode())
                typed = ""
    os.close(ours)
    return process.returncode, _STYLES.sub("", shown.decode().replace("\r\n", "\n"))


def test_on_a_terminal_no_line_is_wider_than_it(journal: Journal) -> None:
    for width in (80, 100, 160):
        _, shown = on_terminal("proof", "show", "run_sums", width=width)
        table = shown[shown.index("TIME ") :]
        assert [line for line in table.splitlines() if len(line) > width] == []


def test_on_a_terminal_columns_that_tell_nothing_are_left_out(journal: Journal) -> None:
    _, shown = on_terminal("proof", "list")

    assert shown.splitlines()[0].split() == ["RUN", "STARTED", "CALLS", "FAILED", "WAITING", "STATE"]


def test_on_a_terminal_allowing_asks_after_showing(journal: Journal) -> None:
    refused, shown = on_terminal("confirm", "allow", "confirm_1", "--by", "grace", typed="n\n", until="[y/N]")
    before = journal.answers("run_payments")
    allowed, _ = on_terminal("confirm", "allow", "confirm_1", "--by", "grace", typed="y\n", until="[y/N]")

    assert shown.index('"amount": 5') < shown.index("[y/N]")
    assert (refused, before, allowed) == (1, [], 0)
    assert [each.by for each in journal.answers("run_payments")] == ["grace"]


def test_answers_are_coloured_only_for_people_who_want_it(journal: Journal) -> None:
    code = "import sys; sys.stdout.isatty = lambda: True; from handrail.cli import main; main()"
    shown = {
        wish: subprocess.run(
            [sys.executable, "-c", code, "proof", "verify"],
            capture_output=True,
            text=True,
            check=True,
            env=environment(TERM="xterm", NO_COLOR=wish),
        ).stdout
        for wish in ("", "1")
    }

    assert ("\x1b[" in shown[""], "\x1b[" in shown["1"]) == (True, False)


def test_nothing_a_tool_said_steers_a_terminal(journal: Journal) -> None:
    _, shown = on_terminal("confirm", "list", width=200)

    assert "gpj.exe" in shown
    assert not {"\x07", "\u202e", "\u200b"} & set(shown)
    assert "\x1b[2J" not in shown


@pytest.mark.parametrize(
    ("words", "word", "completed"),
    [
        ("handrail pro", "pro", ["proof", "probe"]),
        ("handrail proof show run_", "run_", ["run_sums", "run_payments", "run_confirmed"]),
        ("handrail proof prove call_f", "call_f", ["call_first"]),
        ("handrail confirm allow c", "c", ["confirm_1", "confirm_2"]),
    ],
)
def test_the_shell_completes_commands_and_ids(journal: Journal, words: str, word: str, completed: list[str]) -> None:
    code = "from handrail.cli import main; main()"
    out = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=False,
        env=environment(_HANDRAIL_COMPLETE="bash_complete", COMP_WORDS=words, COMP_CWORD=str(len(words.split()) - 1)),
    )

    assert [line.removeprefix("plain,") for line in out.stdout.splitlines()] == completed
