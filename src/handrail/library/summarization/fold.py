"""The fold: ask about each piece, then about the answers, until one is left.

The number of rounds follows from the number of pieces: a note is at most half a
piece, so each round at least halves them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import Any

from handrail.core.errors import ModelError, RequestRefused, ToolError, UsageError, describe_exception
from handrail.core.events import ReplyFinished, TextDelta
from handrail.core.messages import Usage
from handrail.core.model_request import ModelRequest
from handrail.core.ports import Model
from handrail.library.summarization import prompts
from handrail.library.summarization.text_pieces import (
    MARGIN,
    bundle_notes,
    cut_into_pieces,
    numbered_notes,
    shortened_text,
)

_LEAST = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class SummarizationSettings:
    """How texts are cut and summarized: sizes, and how much at once."""

    piece: int = 8_000
    """Characters of text in one request. About 4 are a token; what the model may answer comes on top."""
    overlap: int = 0
    """Characters that a piece repeats of the one before, for questions whose answer may lie across a cut."""
    concurrency: int = 4
    """Requests at once."""
    most: int = 2_000_000
    """Characters of all texts of one call."""
    timeout: float = 600.0
    """Seconds for a whole call."""

    def __post_init__(self) -> None:
        if self.piece < _LEAST:
            raise UsageError(f"a piece must have at least {_LEAST} characters, not {self.piece}")
        if not 0 <= self.overlap <= self.piece // 4:
            raise UsageError(f"the overlap must be from 0 to a quarter of a piece, not {self.overlap}")
        if self.concurrency < 1 or self.most < 1 or not self.timeout > 0:
            raise UsageError("concurrency, most and timeout must be more than 0")


Report = Callable[[float | None, float | None, str], None]
_REFUSED = ("content_filter", "refusal")


@dataclass(frozen=True, slots=True, kw_only=True)
class SummaryTasks:
    """What is asked at each stage."""

    whole: str
    part: Callable[[int, int], str]
    fewer: str
    together: str
    tokens: int
    """The most tokens of the last answer."""
    keeps: Callable[[str], bool] = lambda note: True
    """Whether a note on a part says anything."""


@dataclass(slots=True)
class SummaryFold:
    """One text on its way to one answer, and what that took."""

    model: Model
    settings: SummarizationSettings
    report: Report
    usage: Usage = field(default_factory=Usage)
    requests: int = 0
    pieces: int = 0
    rounds: int = 0
    cut: int = 0
    """Notes that were longer than half a piece, or that the model could not finish."""
    _places: asyncio.Semaphore = field(init=False)

    def __post_init__(self) -> None:
        self._places = asyncio.Semaphore(self.settings.concurrency)

    async def fold(self, text: str, tasks: SummaryTasks, report: Report | None = None) -> str:
        """One answer from one text.

        Raises:
            ToolError: The model gave no answer for a piece, twice.
        """
        report = report or self.report
        # A long text takes long to cut, and others wait for this loop.
        parts = await asyncio.to_thread(cut_into_pieces, text, self.settings.piece, self.settings.overlap)
        self.pieces += len(parts)
        if len(parts) == 1:
            return await self._ask(tasks.whole, text, tasks.tokens, "the text")
        asked = [tasks.part(at, len(parts)) for at in range(1, len(parts) + 1)]
        notes = await self._round(asked, parts, "part", report)
        notes = [note for note in notes if tasks.keeps(note)]
        while len(grouped := bundle_notes(notes, self.settings.piece)) > 1:
            texts = [_joined(group) for group in grouped]
            notes = await self._round([tasks.fewer] * len(texts), texts, "notes", report)
        self.rounds += 1
        return await self._ask(tasks.together, _joined(notes) or "(nothing)", tasks.tokens, "all notes together")

    async def each(self, texts: Sequence[str], tasks: SummaryTasks) -> list[str]:
        """Every text by itself, side by side."""
        return await _side_by_side([self.fold(text, tasks, _no_progress) for text in texts], self.report, "texts")

    async def _round(self, asked: Sequence[str], texts: Sequence[str], what: str, report: Report) -> list[str]:
        self.rounds += 1
        count = len(texts)
        work = [
            self._ask(task, text, self._note_tokens, f"{what} {at} of {count}")
            for at, (task, text) in enumerate(zip(asked, texts, strict=True), 1)
        ]
        return [self._bounded(note) for note in await _side_by_side(work, report, what)]

    @property
    def _note_tokens(self) -> int:
        return max(self.settings.piece // (4 * prompts.CHARACTERS_PER_TOKEN), 32)

    def _bounded(self, note: str) -> str:
        kept = shortened_text(note, self.settings.piece // 2 - MARGIN)
        self.cut += kept != note
        return kept

    async def _ask(self, task: str, text: str, tokens: int, what: str) -> str:
        """Sends one request, and once more if it failed."""
        request = prompts.summary_request(task, text, tokens)
        for attempt in (1, 2):
            try:
                async with self._places:
                    self.requests += 1
                    return await self._reply(request)
            except RequestRefused as error:
                raise ToolError(
                    "MODEL_FAILED",
                    f"the model did not take {what}: {describe_exception(error)}; "
                    "if it is too long, its owner can set a smaller"
                    f" piece than {self.settings.piece:,} characters",
                ) from error
            except ModelError as error:
                if attempt == 2:
                    raise ToolError(
                        "MODEL_FAILED", f"the model failed twice at {what}: {describe_exception(error)}"
                    ) from error
        raise AssertionError("two attempts end in an answer or an error")

    async def _reply(self, request: ModelRequest) -> str:
        words: list[str] = []
        finished: ReplyFinished | None = None
        async with aclosing(self.model.stream(request)) as events:
            async for event in events:
                match event:
                    case TextDelta(text=text):
                        words.append(text)
                    case ReplyFinished():
                        finished = event
        if finished is None:
            raise ModelError("the reply broke off")
        self.usage = self.usage.plus(finished.usage)
        reply = "".join(words).strip()
        if finished.stop in _REFUSED or not reply:
            raise ModelError(f"it gave no text ({finished.stop})")
        self.cut += finished.stop == "max_tokens"
        return reply


async def _side_by_side(work: Sequence[Coroutine[Any, Any, str]], report: Report, what: str) -> list[str]:
    """Runs all of these at once, and returns the results in the order asked. The first that fails ends the others."""
    done = 0

    async def counted(one: Coroutine[Any, Any, str]) -> str:
        nonlocal done
        result = await one
        done += 1
        report(done, len(work), what)
        return result

    try:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(counted(one)) for one in work]
    except BaseExceptionGroup as errors:
        raise _first(errors) from None
    finally:
        for one in work:
            one.close()  # of those that were never begun
    return [task.result() for task in tasks]


def _no_progress(current: float | None, total: float | None, stage: str) -> None:
    """Reports no progress: how far one text of many is tells nothing."""


def _joined(notes: Sequence[str]) -> str:
    return "\n\n".join(numbered_notes(notes))


def _first(errors: BaseExceptionGroup[BaseException]) -> BaseException:
    """The others are of tasks that were cancelled for it, or failed at the same time."""
    first = errors.exceptions[0]
    return _first(first) if isinstance(first, BaseExceptionGroup) else first
