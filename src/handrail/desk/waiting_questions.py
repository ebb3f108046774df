"""Questions that wait in the desk's journal and that the desk did not ask: those of an MCP proxy, an adapter, a hook,
another desk.

They are shown beside the desk's own while somebody watches, and an answer is written to the journal, where the program
that asked finds it. The first answer counts, wherever it comes from.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from handrail.app.app import cancel_and_wait
from handrail.core.display import browser_safe, exact_json
from handrail.core.errors import JournalError, UsageError
from handrail.core.events import ConfirmationAnswered
from handrail.core.ports import Clock
from handrail.desk.feed import DeskNews
from handrail.desk.questions import Decision, PendingQuestions
from handrail.desk.values import DeskQuestion
from handrail.journal.person_answers import answer
from handrail.journal.places import JournalPlace
from handrail.journal.reader import JournalReader
from handrail.journal.waiting_questions import WaitingQuestion, find_waiting

logger = logging.getLogger(__name__)

_INTERVAL = 0.5
"""Seconds between two looks whether anybody has written to the journal."""
_FAILED = -1
"""Stands for the version of a journal that could not be read."""
_RECENT = 24 * 60 * 60 * 1000
"""Milliseconds: what was asked earlier is answered by `handrail confirm` only. A program that was ended while it asked
leaves its question in the journal for good."""


class WaitingQuestions:
    def __init__(self, journal: JournalPlace, asking: PendingQuestions, news: DeskNews, clock: Clock) -> None:
        self._journal = journal
        self._asking = asking
        self._news = news
        self._clock = clock
        self._next = 0
        """The first entry of the journal that was not read yet."""
        self._unanswered: dict[str, WaitingQuestion] = {}
        self._shown: dict[str, DeskQuestion] = {}
        self._watchers = 0
        self._watching: asyncio.Task[None] | None = None
        self._reading = asyncio.Lock()

    @property
    def shown(self) -> tuple[DeskQuestion, ...]:
        """The waiting questions, as far as the journal was read, the oldest first."""
        return tuple(self._shown.values())

    async def look(self) -> None:
        """Read what is new in the journal, and tell who watches.

        Raises:
            JournalError: It cannot be read.
        """
        async with self._reading:
            await asyncio.to_thread(self._read)
        before, self._shown = self._shown, {each.asked.request: self._show(each) for each in self._current()}
        for request, question in self._shown.items():
            if request not in before:
                self._news.tell("question", request, question)
        for request in before.keys() - self._shown.keys():
            if not self._asking.waits(request):
                self._news.tell("answered", request, request)

    @asynccontextmanager
    async def watched(self) -> AsyncIterator[None]:
        """The journal is looked at while at least one such block runs."""
        self._watchers += 1
        if self._watching is None:
            self._watching = asyncio.create_task(self._watch())
        try:
            yield
        finally:
            self._watchers -= 1
            if not self._watchers:
                watching, self._watching = self._watching, None
                await cancel_and_wait(watching)

    async def decide(self, request: str, decision: Decision, reason: str = "") -> None:
        """Write a person's decision on one of them to the journal. `later` leaves it as it is.

        Raises:
            UsageError: It does not wait any more, it cannot be answered so, or what would run cannot be shown.
            JournalError: The word could not be written.
        """
        await self.look()
        shown = self._shown.get(request)
        run = "" if shown is None else shown.run
        waiting = await asyncio.to_thread(find_waiting, self._journal, run, request) if run else None
        if waiting is None:
            raise UsageError(f"question {request!r} does not wait for an answer; somebody may have answered it already")
        match decision:
            case "later":
                return
            case "allow" | "deny":
                if decision == "allow":
                    waiting.refuse_unseen()
                try:
                    await answer(
                        self._journal, waiting.asked, decision, by=self._asking.by, reason=reason, clock=self._clock
                    )
                finally:
                    await self.look()
            case _:
                raise UsageError("another program asked this; it can be allowed or denied here, and nothing else")

    async def _watch(self) -> None:
        seen: int | None = None
        reader: JournalReader | None = None
        try:
            while True:
                try:
                    reader = reader or JournalReader(self._journal)
                    if (version := reader.version()) != seen:
                        await self.look()
                        seen = version
                except JournalError as error:
                    if seen != _FAILED:
                        logger.warning("questions of other programs are not seen for now: %s", error)
                    seen = _FAILED
                    if reader is not None:  # its connection to a shared state may be lost
                        reader.close()
                        reader = None
                await asyncio.sleep(_INTERVAL)
        finally:
            if reader is not None:
                reader.close()

    def _read(self) -> None:
        with JournalReader(self._journal, still=True) as reader:
            for entry in reader.confirmations(self._next):
                try:
                    event = entry.event
                    if isinstance(event, ConfirmationAnswered):
                        self._unanswered.pop(event.request, None)
                    else:
                        asked = WaitingQuestion.read(reader, entry)
                        self._unanswered[asked.asked.request] = asked
                except JournalError as error:  # one that was tampered with hides no other
                    logger.warning("a question in the journal (entry %d) is not shown: %s", entry.seq, error)
            self._next = reader.end()

    def _current(self) -> list[WaitingQuestion]:
        since = self._clock.now() - _RECENT
        return [
            each
            for each in self._unanswered.values()
            if each.asked.at >= since and not self._asking.is_own(each.asked.run, each.asked.request)
        ]

    def _show(self, waiting: WaitingQuestion) -> DeskQuestion:
        asked, subject = waiting.asked, waiting.asked.asked
        if (known := self._shown.get(asked.request)) is not None:
            return known
        arguments = asked.arguments or {}
        words = None if subject is None or subject.words is None else subject.words.get("description")
        agents = "" if subject is None or not subject.agents else f" (for {' → '.join(subject.agents)})"
        return DeskQuestion(
            request=asked.request,
            conversation="",
            run=asked.run,
            call_id=asked.call_id,
            tool=asked.tool,
            description=(words if isinstance(words, str) else "") + agents,
            arguments=browser_safe(arguments),
            written=exact_json(arguments),
            why="" if subject is None else subject.why,
            unseen=waiting.unseen,
        )
