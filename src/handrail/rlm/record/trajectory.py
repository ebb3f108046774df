"""A run as JSON lines that the visualizer of `rlms` reads: what it was begun with, then one line for each turn.

It is for people to look at, and may be lost or cut; the record that proves and resumes is the journal. Lines and texts
have a bound, what looks like a secret is masked, and the file belongs to its owner alone. A killed process leaves whole
lines: each is written at once, and `read` passes over one that is torn.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Iterable, Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

from handrail.core.errors import UsageError
from handrail.core.jsontext import JSONTextError, parse_lightly
from handrail.core.ports import Clock, SystemClock
from handrail.rlm.record.json_lines import LINE_BYTES, line_of
from handrail.rlm.values import RLMIteration, RLMMetadata

logger = logging.getLogger(__name__)

KEPT = 1_000
"""Turns of one run that are held in memory."""


def _some_hex() -> str:
    return os.urandom(4).hex()


class RLMLogger:
    """Keeps the trajectory of a run in memory and, with a `log_dir`, in a file of its own there."""

    def __init__(
        self,
        log_dir: Path | str | None = None,
        file_name: str = "rlm",
        *,
        clock: Clock = SystemClock(),
        new_suffix: Callable[[], str] = _some_hex,
        line_bytes: int = LINE_BYTES,
        kept: int = KEPT,
    ) -> None:
        """A folder that is not there and cannot be made is a `UsageError`."""
        self._clock = clock
        self._line_bytes = line_bytes
        self._kept = kept
        self._path = None if log_dir is None else _new_file(Path(log_dir), file_name, self._now(), new_suffix())
        self._metadata: dict[str, Any] | None = None
        self._iterations: list[dict[str, Any]] = []
        self._count = 0
        self._torn = False
        """Whether a line could be written only in part: then the next begins with an end."""

    @property
    def log_file_path(self) -> str | None:
        return None if self._path is None else str(self._path)

    @property
    def iteration_count(self) -> int:
        return self._count

    def log_metadata(self, metadata: RLMMetadata) -> None:
        """What the run was begun with; only the first counts."""
        if self._metadata is not None:
            return
        self._metadata, _ = line_of(metadata.to_dict(), self._line_bytes, settings=True)
        self._write({"type": "metadata", "timestamp": self._now().isoformat(), **self._metadata})

    def log(self, iteration: RLMIteration) -> None:
        """Writes one more turn."""
        self._count += 1
        head = {"type": "iteration", "iteration": self._count, "timestamp": self._now().isoformat()}
        entry = self._write({**head, **iteration.to_dict()})
        self._iterations.append(entry)
        if len(self._iterations) > self._kept:
            del self._iterations[self._kept // 2]  # how it began and how it ended are worth more than the middle

    def clear_iterations(self) -> None:
        """Begin with the next completion: a trajectory is that of one."""
        self._iterations = []
        self._count = 0

    def get_trajectory(self) -> dict[str, Any] | None:
        """`run_metadata` and `iterations`, for `RLMChatCompletion.metadata`; None before there is any metadata."""
        if self._metadata is None:
            return None
        left_out = self._count - len(self._iterations)
        found = {"run_metadata": self._metadata, "iterations": list(self._iterations)}
        return {**found, "left_out": left_out} if left_out else found

    def _write(self, entry: dict[str, Any]) -> dict[str, Any]:
        """The entry as it is kept: within its bounds, and without secrets."""
        kept, line = line_of(entry, self._line_bytes)
        if self._path is None:
            return kept
        data = b"\n" + line if self._torn else line
        try:
            self._torn = _append(self._path, data) < len(data)
        except OSError as error:
            logger.warning("the trajectory %s cannot be written: %s", self._path, error.strerror)
        return kept

    def _now(self) -> datetime:
        return datetime.fromtimestamp(self._clock.now() / 1000).astimezone()


class LoggedIteration(Struct, frozen=True):
    """A turn as it was logged."""

    number: int
    timestamp: str
    iteration: RLMIteration
    left_out: int = 0
    """Items of its lists that were not written, because the line would have been too long."""


class Trajectory(Struct, frozen=True):
    metadata: RLMMetadata | None
    iterations: tuple[LoggedIteration, ...]
    notes: tuple[str, ...]
    """Which lines could not be read, and why."""


class _MetadataLine(Struct, tag_field="type", tag="metadata"):
    timestamp: str


class _IterationLine(Struct, tag_field="type", tag="iteration"):
    timestamp: str
    iteration: int
    left_out: int = 0


def read(path: Path | str) -> Trajectory:
    """A file of ours or of `rlms`.

    Raises:
        UsageError: There is no such file.
    """
    try:
        with open(path, "rb") as file:
            return parse_trajectory(_lines(file.readline))
    except OSError as error:
        raise UsageError(f"the trajectory {str(path)!r} cannot be read: {error.strerror}") from error


def parse_trajectory(lines: Iterable[bytes]) -> Trajectory:
    """The lines of a file; those that cannot be read are passed over, with a word."""
    metadata: RLMMetadata | None = None
    iterations: list[LoggedIteration] = []
    notes: list[str] = []
    for number, line in enumerate(lines, 1):
        if line.isspace():
            continue
        try:
            found = _parsed(line)
        except (JSONTextError, UsageError, msgspec.ValidationError) as error:
            torn = "" if line.endswith(b"\n") else ", which was not written to its end,"
            notes.append(f"line {number}{torn} was passed over: {error}")
            continue
        if isinstance(found, LoggedIteration):
            iterations.append(found)
        elif metadata is None:
            metadata = found
    return Trajectory(metadata, tuple(iterations), tuple(notes))


def _parsed(line: bytes) -> LoggedIteration | RLMMetadata:
    data = parse_lightly(line)
    found = msgspec.convert(data, _MetadataLine | _IterationLine)
    if isinstance(found, _MetadataLine):
        return RLMMetadata.from_dict(data)
    match data.get("final_answer"):
        case [str(), str(answer)]:  # as `rlms` once wrote it, with the way it was given
            data["final_answer"] = answer
    return LoggedIteration(found.iteration, found.timestamp, RLMIteration.from_dict(data), found.left_out)


def _lines(readline: Callable[[int], bytes]) -> Iterator[bytes]:
    """Lines of a file whose lines may be longer than any should be; such a one is cut, and so cannot be read."""
    most = 16 * LINE_BYTES
    while line := readline(most):
        yield line
        while len(line) == most and not line.endswith(b"\n"):
            line = readline(most)


def _new_file(folder: Path, name: str, now: datetime, suffix: str) -> Path:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(f"trajectories cannot be kept in {str(folder)!r}: {error.strerror}") from error
    return folder / f"{name}_{now:%Y-%m-%d_%H-%M-%S}_{suffix}.jsonl"


def _append(path: Path, data: bytes) -> int:
    """Appends bytes; returns how many were written, which is all of them unless the disk is full."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
    try:
        return os.write(descriptor, data)
    finally:
        os.close(descriptor)
