"""Replies of models and outputs of tools from a file: recorded once, replayed with strict matching.

    @cassette("refund")
    def test_a_refund_is_asked_for_once() -> None:
        ...

It stands between a run and its model, and between a call and its handler. Everything else is real: calls are checked,
authorised, confirmed and recorded as ever.
"""

from __future__ import annotations

import functools
import inspect
import os
import sys
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import AbstractContextManager, aclosing
from pathlib import Path
from types import TracebackType
from typing import Any, Literal, ParamSpec, Self, TypeVar, cast, get_args

import msgspec

from handrail.core.calls import Output
from handrail.core.errors import ModelError, ToolError, UsageError
from handrail.core.events import ModelEvent
from handrail.core.interception import HandlerCall, intercepted_by
from handrail.core.model_request import ModelRequest
from handrail.core.ports import Model
from handrail.core.redact import mask_field_values, mask_fields, redact
from handrail.testing.cassette_entries import (
    Plain,
    ReplyEntry,
    plain_failure,
    plain_output,
    plain_request,
    replayed_output,
    replayed_reply,
    secrets_of,
)
from handrail.testing.cassette_file import read_cassette, write_cassette
from handrail.testing.differences import differences, is_same

CassetteMode = Literal["replay", "record", "rerecord"]
"""Replay and never record; record where there is no file; always record."""

VARIABLE = "HANDRAIL_CASSETTES"
_FOLDER = "cassettes"
_LINES = 8
"""Differences that are told of one mismatch."""

P = ParamSpec("P")
R = TypeVar("R")


class CassetteMismatch(AssertionError):
    """A test differs from its recording; the message says where, and how to record it again."""


def cassette(
    name: str,
    *,
    folder: str | Path | None = None,
    mode: CassetteMode | None = None,
    replace: Mapping[str, str] | None = None,
) -> Cassette:
    """A recording by its name, for a `with` block or as the decorator of a test, async or not.

    Args:
        name: The name of the file, without `.json`. It may have folders, as `orders/refund`.
        folder: Where the file is: by default `cassettes/` beside the file that calls this.
        mode: What to do; by default what the environment variable HANDRAIL_CASSETTES says, else `replay`.
        replace: Texts that differ from run to run, as a date or a temporary folder, with the text that stands in the
            file for each of them.

    Raises:
        UsageError: There is no name, it leads out of the folder, or there is no such mode.
    """
    if folder is None:
        caller = sys._getframe(1).f_globals.get("__file__")
        folder = (Path.cwd() if caller is None else Path(caller).parent) / _FOLDER
    return Cassette(name, Path(folder), mode, replace or {})


class Cassette:
    """The result of `cassette(…)`. A block that ends without an error writes its recording, or has used all entries."""

    def __init__(self, name: str, folder: Path, mode: CassetteMode | None, replace: Mapping[str, str]) -> None:
        if not isinstance(name, str):
            raise UsageError(f"a cassette has a name: cassette('orders'), not {name!r}")
        parts = Path(name).parts
        if not name or "\0" in name or Path(name).is_absolute() or ".." in parts:
            raise UsageError(f"the name of a cassette is that of a file in its folder, not {name!r}")
        if mode is not None and mode not in get_args(CassetteMode):
            raise UsageError(f"mode is one of {', '.join(get_args(CassetteMode))}, not {mode!r}")
        if not all(text and label for text, label in replace.items()):
            raise UsageError("replace has a text, and what stands for it, for each pair; neither is empty")
        self.name = name
        self.path: Path = folder / f"{name}.json"
        self.is_recording: bool = False
        """Whether models and tools are really used in this block."""
        self._mode = mode
        self._replace = dict(replace)
        self._entries: list[Plain] = []
        self._used: set[int] = set()
        self._secrets: list[tuple[Any, frozenset[str]]] = []
        """Arguments that were seen, with the names of their secrets."""
        self._mismatch: CassetteMismatch | None = None
        self._standing: AbstractContextManager[None] | None = None

    # ── the block ────────────────────────────────────────────────────────────────────

    def __enter__(self) -> Self:
        """Stand between programs and their models and tools until the block ends.

        Raises:
            UsageError: It would record in CI, or its file is no cassette.
            CassetteMismatch: Nothing was recorded yet, and nothing is to be recorded now.
        """
        mode = self._chosen()
        self._entries, self._used, self._secrets, self._mismatch = [], set(), [], None
        self.is_recording = mode == "rerecord" or (mode == "record" and not self.path.exists())
        if self.is_recording and os.environ.get("CI", "").lower() not in ("", "0", "false", "no"):
            raise UsageError(
                f"cassette {self.name!r} is not recorded in CI (the variable CI is set): record it on your machine, "
                f"and commit {str(self.path)!r}"
            )
        if not self.is_recording:
            try:
                self._entries = read_cassette(self.path)
            except FileNotFoundError:
                raise CassetteMismatch(
                    f"cassette {self.name!r} was never recorded: there is no {str(self.path)!r}. Record it, which asks "
                    f"models and runs tools, with: {VARIABLE}=record"
                ) from None
        self._standing = intercepted_by(self)
        self._standing.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Write what was recorded, or check that all of it was used.

        Raises:
            CassetteMismatch: The block ended well, but did something else than was recorded, or not all of it.
        """
        assert self._standing is not None
        self._standing.__exit__(None, None, None)
        if error is not None:
            if self._mismatch is not None and error is not self._mismatch:
                error.add_note(str(self._mismatch))
        elif self.is_recording:
            write_cassette(self.path, [self._written(entry) for entry in self._entries if _is_whole(entry)])
        elif self._mismatch is not None:
            raise self._mismatch
        elif len(self._used) < len(self._entries):
            raise self._unused()

    def __call__(self, function: Callable[P, R]) -> Callable[P, R]:
        """The function inside a block of its own each time that it is called."""
        if inspect.iscoroutinefunction(function):

            @functools.wraps(function)
            async def awaited(*args: P.args, **kwargs: P.kwargs) -> Any:
                with self:
                    return await function(*args, **kwargs)

            return cast(Callable[P, R], awaited)

        @functools.wraps(function)
        def called(*args: P.args, **kwargs: P.kwargs) -> R:
            with self:
                return function(*args, **kwargs)

        return called

    def _chosen(self) -> CassetteMode:
        mode = self._mode or os.environ.get(VARIABLE, "").strip() or "replay"
        if mode not in get_args(CassetteMode):
            raise UsageError(f"{VARIABLE} is one of {', '.join(get_args(CassetteMode))}, not {mode!r}")
        return cast(CassetteMode, mode)

    # ── what passes ──────────────────────────────────────────────────────────────────

    @property
    def asks_services(self) -> bool:
        return self.is_recording

    async def stream(self, model: Model, request: ModelRequest) -> AsyncGenerator[ModelEvent, None]:
        asked = {"model": model.name, "request": plain_request(request)}
        if not self.is_recording:
            reply = self._replayed(self._find(asked, f"the request to {model.name!r}")["reply"])
            events, failed = replayed_reply(reply, secrets_of(request.tools))
            for event in events:
                yield event
            if failed is not None:
                raise failed
            return
        entry, collected = self._begin(asked), ReplyEntry(request)
        try:
            async with aclosing(model.stream(request)) as arriving:
                async for event in arriving:
                    collected.take(event)
                    yield event
        except ModelError as error:
            collected.fail(error)
            entry["reply"] = collected.plain()
            raise
        entry["reply"] = collected.plain()
        secrets = secrets_of(request.tools)
        self._secrets += [
            (call["arguments"], secrets[call["tool"]])
            for call in entry["reply"].get("calls", ())
            if call["tool"] in secrets
        ]

    async def perform(self, call: HandlerCall, run: Callable[[], Awaitable[Output]]) -> Output:
        asked = {"tool": call.tool, "arguments": mask_fields(call.arguments, call.secrets)}
        if not self.is_recording:
            found = self._find(asked, f"a call of {call.tool!r}", again=not call.side_effects)
            return replayed_output(self._replayed(found))
        entry = self._begin(asked)
        self._secrets.append((call.arguments, call.secrets))
        try:
            with intercepted_by(None):  # what the handler asks and calls is part of its output
                output = await run()
        except ToolError as error:
            entry.update(plain_failure(error))
            raise
        entry.update(plain_output(output))
        return output

    def _begin(self, asked: Plain) -> Plain:
        """An entry at its place in the order of beginnings. Without an end, it is not written."""
        entry = dict(asked)
        self._entries.append(entry)
        return entry

    # ── matching ─────────────────────────────────────────────────────────────────────

    def _find(self, asked: Plain, what: str, *, again: bool = False) -> Plain:
        """The first entry that was not used yet and fits; else, with `again`, one that was used and fits.

        Equal reads at the same time are one, so that there is one entry. A replay is too fast for them to meet.

        Raises:
            CassetteMismatch: There is none.
        """
        now = self._labelled(asked)
        left = [(at, entry) for at, entry in enumerate(self._entries) if at not in self._used and _is_like(entry, now)]
        used = [(at, self._entries[at]) for at in self._used if again and _is_like(self._entries[at], now)]
        for at, entry in (*left, *used):
            if is_same({name: entry[name] for name in now}, now):
                self._used.add(at)
                return entry
        self._mismatch = self._mismatch or self._differing(now, what, left)
        raise self._mismatch

    def _differing(self, now: Plain, what: str, left: list[tuple[int, Plain]]) -> CassetteMismatch:
        if not left:
            again = "was recorded" if any(_is_like(entry, now) for entry in self._entries) else "was ever recorded"
            told = [f"no further one {again}; now: {_start(now)}"]
        else:
            at, entry = min(left, key=lambda each: sum(1 for _ in _told_differences(each[1], now)))
            told = [f"it differs from entry {at + 1}:", *(f"  {line}" for line in _told_differences(entry, now))]
        return self._mismatch_of(f"{what} is not in the recording", told)

    def _unused(self) -> CassetteMismatch:
        left = [at for at in range(len(self._entries)) if at not in self._used]
        told = [f"entry {at + 1}: {_kind(self._entries[at])}" for at in left]
        return self._mismatch_of(f"{len(left)} of {len(self._entries)} recorded entries were not used", told)

    def _mismatch_of(self, what: str, told: list[str]) -> CassetteMismatch:
        more = [f"… and {len(told) - _LINES} more"] if len(told) > _LINES else []
        lines = "".join(f"\n  {line}" for line in (*told[:_LINES], *more))
        return CassetteMismatch(
            f"cassette {self.name!r} ({self.path}): {what}{lines}\n"
            f"If that is meant, record it again, which asks models and runs tools: {VARIABLE}=rerecord"
        )

    # ── what is written and compared ─────────────────────────────────────────────────

    def _labelled(self, value: Any) -> Any:
        """As it may be written, but for the secrets that tools declare: what looks like a secret is masked."""
        return redact(_each_text(value, self._with_labels))

    def _written(self, entry: Plain) -> Plain:
        written: Plain = self._labelled(_each_text(entry, self._without_secrets))
        return written

    def _replayed(self, value: Plain) -> Plain:
        replayed: Plain = _each_text(value, self._without_labels)
        return replayed

    def _with_labels(self, text: str) -> str:
        for real, label in self._replace.items():
            text = text.replace(real, label)
        return text

    def _without_labels(self, text: str) -> str:
        for real, label in self._replace.items():
            text = text.replace(label, real)
        return text

    def _without_secrets(self, text: str) -> str:
        for arguments, names in self._secrets:
            text = mask_field_values(text, arguments, names)
        return text


def _each_text(value: Any, change: Callable[[str], str]) -> Any:
    match value:
        case str():
            return change(value)
        case dict():
            return {change(key): _each_text(item, change) for key, item in value.items()}
        case list() | tuple():
            return [_each_text(item, change) for item in value]
    return value


def _is_whole(entry: Plain) -> bool:
    """Whether it ended: not one whose caller went away."""
    if "request" in entry:
        return "stop" in entry.get("reply", {}) or "error" in entry.get("reply", {})
    return "output" in entry or "error" in entry


def _is_like(entry: Plain, now: Plain) -> bool:
    """Whether both are replies, or both are calls of one tool."""
    return ("request" in entry) == ("request" in now) and entry.get("tool") == now.get("tool")


def _told_differences(entry: Plain, now: Plain) -> list[str]:
    found = differences({name: entry[name] for name in now}, now)
    return [line.removeprefix("request.") for line in found]


def _kind(entry: Plain) -> str:
    if "request" in entry:
        return f"a reply of {entry['model']!r}: {_short(entry['reply'])}"
    return f"a call of {entry['tool']!r} with {_short(entry['arguments'])}"


def _start(now: Plain) -> str:
    return _short(now["request"]["messages"][-1:] if "request" in now else now["arguments"])


def _short(value: Any) -> str:
    text = msgspec.json.encode(value).decode()
    return text if len(text) <= 120 else f"{text[:119]}…"
