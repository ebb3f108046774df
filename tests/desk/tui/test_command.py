"""`handrail tui` as a process at a terminal, and where there is none."""

from __future__ import annotations

import asyncio
import os
import pty
import signal
import subprocess
from pathlib import Path

import pytest

from handrail.core.errors import UsageError
from handrail.core.messages import AssistantMessage, Conversation
from handrail.desk.tui.dialogs import read_attachment, read_named_file, write_new
from handrail.desk.views.journal_index import JournalIndex
from handrail.sessions.store.conversations import ConversationStore
from tests.cli.journal_fixtures import command, environment
from tests.cli.terminal_fixtures import dialogue

LEAVE = "\x11"


async def test_without_a_terminal_it_says_so_and_names_what_works_there(folder: Path) -> None:
    process = await asyncio.create_subprocess_exec(
        *command("tui"), stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE, env=environment()
    )
    out, told = await process.communicate()
    assert process.returncode == 1 and out == b""
    assert b"needs a terminal" in told and b"handrail chat" in told
    assert not (folder / ".handrail").exists()


def test_a_conversation_that_was_kept_or_recorded_goes_on_at_a_terminal(folder: Path) -> None:
    code, told = dialogue(["ask", "hello"])
    assert code == 0, told
    ([run], _) = JournalIndex(folder / ".handrail" / "journal.db").runs()
    assert not ConversationStore(folder / ".handrail").list()
    code, shown = dialogue(["tui", run.summary.run], ("Hello!", LEAVE))  # the record alone has it
    assert code == 0, shown
    ConversationStore(folder / ".handrail").save("run_otter", Conversation().say("hi").add(AssistantMessage("otters")))
    code, shown = dialogue(["tui", "run_ot"], ("otters", LEAVE))
    assert code == 0, shown


def test_it_ends_when_its_terminal_is_gone_although_no_signal_says_so(folder: Path) -> None:
    ours, theirs = pty.openpty()
    with subprocess.Popen(
        command("tui"),
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        env=environment(TERM="xterm"),
        start_new_session=True,
    ) as process:
        os.close(theirs)
        shown = b""
        while b"new conversation" not in shown:
            shown += os.read(ours, 65_536)
        os.close(ours)
        assert process.wait(60) == 128 + signal.SIGHUP


def test_files_are_read_and_written_but_never_replaced(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    assert write_new(str(path), b"one") == path.resolve()
    with pytest.raises(UsageError, match="name another file"):
        write_new(str(path), b"two")
    assert read_named_file(str(path)) == b"one"
    assert read_attachment(str(path)).media_type == "text/plain"
    with pytest.raises(UsageError, match="cannot be read"):
        read_named_file(str(tmp_path / "none"))
