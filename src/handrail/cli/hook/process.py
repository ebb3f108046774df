"""The process of a hook: one event on stdin, one answer on stdout, whatever happens."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from pathlib import Path

from msgspec import Struct

from handrail.cli.hook.decide import decide
from handrail.cli.hook.hooked_call import HookedCall, run_of
from handrail.cli.hook.hosts import NAMES, HookEvent, Host, UnreadableEvent, Verdict, read_event, write_answer
from handrail.cli.hook.record import HookRecord
from handrail.cli.journal_location import journal_to_write
from handrail.config.find import find_config
from handrail.config.hook import HookConfig, HookSettings, read_hook_config
from handrail.core.errors import HandrailError, describe_exception

_MOST = 64 * 1024 * 1024
_BEFORE: dict[Host, str] = {"claude": "PreToolUse", "codex": "PreToolUse", "copilot": "preToolUse"}


class HookPlace(Struct, frozen=True):
    """Where a hook looks for its configuration and its journal."""

    config: Path | None = None
    journal: Path | None = None


def run_hook(host: Host, place: HookPlace, environ: Mapping[str, str] = os.environ) -> int:
    """Answer the event on stdin. The exit code is always 0: any other one would hide the answer from the host."""
    data = sys.stdin.buffer.read(_MOST + 1)
    sys.stdout.write(answer_event(host, data, place, environ) + "\n")
    sys.stdout.flush()
    return 0


def answer_event(host: Host, data: bytes, place: HookPlace, environ: Mapping[str, str] = os.environ) -> str:
    """What the host reads. It never raises: what cannot be decided is answered by `hook.on_failure`."""
    settings, name = HookSettings(), _BEFORE[host]
    try:
        event, unreadable = _read(host, data)
        if event is not None and event.kind == "other":
            return write_answer(host, event.name or "other", Verdict())
        name = name if event is None else event.name or "other"
        start = _start(host, environ)
        config = read_hook_config(find_config(place.config, Path(start), environ), environ)
        settings = config.settings  # they decide of what cannot be read too
        if event is None:
            return write_answer(host, name, _undecided(host, settings, unreadable))
        return write_answer(host, name, _answered(event, config, place, start))
    except HandrailError as error:
        why = str(error)
    except Exception as error:
        why = describe_exception(error)
    return write_answer(host, name, _undecided(host, settings, why))


def _read(host: Host, data: bytes) -> tuple[HookEvent | None, str]:
    """The event, or why it cannot be read."""
    if len(data) > _MOST:
        return None, f"what {NAMES[host]} wrote has more than {_MOST // 1024**2} MiB"
    try:
        return read_event(host, data), ""
    except UnreadableEvent as error:
        return None, str(error)


def _answered(event: HookEvent, config: HookConfig, place: HookPlace, start: str) -> Verdict:
    home = Path(start) if config.file is None else config.file.parent

    def record() -> HookRecord:
        return HookRecord(journal_to_write(place.journal, config.journal, home, Path(start)))

    if event.kind == "before":
        return decide(HookedCall.of(event, start), config, start, record)
    with record() as journal:
        if event.kind == "end":
            journal.finish(run_of(event, start), f"{NAMES[event.host]} ended the session")
        elif event.kind == "resume":
            journal.take_up(HookedCall.of(event, start))
        else:
            journal.settle(HookedCall.of(event, start))
    return Verdict()


def _undecided(host: Host, settings: HookSettings, why: str) -> Verdict:
    """The answer of a hook that cannot decide. A host that asks nobody goes by its own permissions instead."""
    reason = f"handrail cannot decide: {why}"
    if settings.on_failure != "ask" or host == "claude":
        return Verdict(settings.on_failure, reason)
    return Verdict(None, reason)


def _start(host: Host, environ: Mapping[str, str]) -> str:
    """The folder of the project. Where the agent stands at the moment is the model's to say, so it is not that."""
    named = environ.get("CLAUDE_PROJECT_DIR", "") if host == "claude" else ""
    return named if os.path.isdir(named) else os.getcwd()


def quick_hook(words: list[str]) -> int | None:
    """Run the hook if these words of a command line ask for nothing else; None if somebody else must read them."""
    options: dict[str, Path] = {}
    if len(words) < 2 or words[0] != "hook" or words[1] not in NAMES or len(words) % 2:
        return None
    for name, value in zip(words[2::2], words[3::2], strict=True):
        if name not in ("--config", "--journal"):
            return None
        options[name[2:]] = Path(value)
    if "journal" not in options and (stated := os.environ.get("HANDRAIL_JOURNAL")):
        options["journal"] = Path(stated)
    if "://" in str(words) + os.environ.get("HANDRAIL_JOURNAL", ""):
        return None  # a journal that is no file is refused with the words of the command line
    host: Host = "claude" if words[1] == "claude" else "codex" if words[1] == "codex" else "copilot"
    return run_hook(host, HookPlace(**options))
