"""What a run has read and heard: the words that are trusted, and the results with the fields that are not.

It only keeps references while the run goes on. A call that has to be judged makes what it needs of them, once: what
comes in waits for that, in its order.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Mapping
from datetime import date
from typing import Any

from msgspec.structs import replace

from handrail.core.calls import ToolResult
from handrail.core.jsontext import JSONTextError, parse_object
from handrail.core.messages import (
    AssistantMessage,
    DocumentMessage,
    InvocationMessage,
    Media,
    Message,
    ResultMessage,
    SupervisorMessage,
    UserMessage,
)
from handrail.execute.handles.withheld_words import whole_result
from handrail.execute.origins.plans import is_plan_answer
from handrail.execute.origins.private_values import PrivateValues
from handrail.execute.origins.result_records import ResultRecords
from handrail.execute.origins.trusted_words import TrustedWords
from handrail.execute.origins.value_index import ValueIndex
from handrail.execute.origins.written_dates import WrittenDates
from handrail.tools.effect_kinds import name_words
from handrail.tools.registry import RegisteredTools
from handrail.tools.tool import Tool

MOST_RESULTS = 2_000
"""Results in which values are looked for, the latest. A value of an older one has no trusted origin any more."""
_MOST_TIMES = 20_000
"""Characters from outside in which a time of day is looked for."""
_CLOCKS = frozenset({"today", "now", "time", "date", "clock", "day"})


class RunOrigins:
    """The sources of one run, and of the runs that its calls begin."""

    def __init__(self, *, follows: bool = True) -> None:
        self._follows = follows
        """Whether a policy asks where values come from; else nothing is held on to."""
        self._unread: deque[tuple[Callable[..., None], tuple[Any, ...]]] = deque()
        """What came since a call was last judged, and the method that takes it in."""
        self._words = TrustedWords()
        self._results: dict[str, ResultRecords] = {}
        self._private = PrivateValues()
        self._index = ValueIndex()
        self._new: list[tuple[ToolResult, RegisteredTools]] = []
        self._waiting: dict[str, ToolResult] = {}
        """The latest of those by the ids of their calls."""
        self._arguments: dict[str, Mapping[str, Any] | str] = {}
        self._untrusted: set[str] = set()
        self._outside: dict[str, None] = {}
        self._has_private = False
        self._held: dict[tuple[str, str], ResultRecords] = {}
        """The results of documents and other words that no call gave, by name."""

    # ── what comes in ────────────────────────────────────────────────────────────────

    def hear(self, messages: tuple[Message, ...], tools: RegisteredTools, *, below: bool = False) -> None:
        """Take in messages of the conversation. In a run that a call began (`below`), a model wrote what stands for a
        person's words."""
        self._later(RunOrigins._hear_all, messages, tools, below)

    def read_outside(self, source: str) -> None:
        """Take in that words from outside were read."""
        self._later(RunOrigins._read_outside, source)

    def ask(self, call_id: str, arguments: Mapping[str, Any] | str | None) -> None:
        """Take in what a call is made with."""
        if arguments is not None and self._follows:
            self._arguments[call_id] = arguments

    def settle(self, result: ToolResult, tools: RegisteredTools) -> None:
        """Take in the result of a call."""
        if self._follows:
            self._later(RunOrigins._settle, result, tools)

    def below(self, above: RunOrigins) -> RunOrigins:
        """Join the run to the one whose call began it: what either reads, both have read."""
        self._catch_up()
        for result, tools in self._new:
            above.settle(result, tools)
        above._arguments.update(self._arguments)
        above.untrusted.update(self._untrusted)
        above.outside.update(self._outside)
        return above

    def _later(self, take: Callable[..., None], *what: Any) -> None:
        self._unread.append((take, what))
        if not self._follows:
            self._catch_up()

    def _catch_up(self) -> None:
        while self._unread:
            take, what = self._unread[0]
            take(self, *what)
            self._unread.popleft()

    def _hear_all(self, messages: tuple[Message, ...], tools: RegisteredTools, below: bool) -> None:
        for message in messages:
            match message:
                case ResultMessage(result=result) if result.untrusted:
                    self._untrusted.add(result.name)
                case UserMessage(source=source) | DocumentMessage(source=source) | AssistantMessage(source=source):
                    if source:
                        self._untrusted.add(source)
            if self._follows:
                self._hear(message, tools, below)

    def _hear(self, message: Message, tools: RegisteredTools, below: bool) -> None:
        match message:
            case UserMessage():
                if message.source:
                    self._outside[message.source] = None
                elif not below:
                    self._words.add(message.text, person=True, at=message.at)
                elif not self._outside:
                    self._words.add(message.text, person=False, at=message.at)
                for part in message.content:
                    if isinstance(part, Media):
                        self._outside[part.name or "an attachment"] = None
            case SupervisorMessage(text=text, at=at):
                self._words.add(text, person=False, at=at)
            case DocumentMessage(name=name, text=text):
                self._outside[name] = None
                self._held["document", name] = _read(name, text)
            case AssistantMessage(source=source) if source:
                self._outside[source] = None
            case InvocationMessage(call=call):
                self._arguments.setdefault(call.id, call.arguments)
            case ResultMessage(result=result):
                if result.tool_call_id not in self._results and not is_plan_answer(result.content):
                    elsewhere = result.name not in tools and result.outcome in ("ok", "failed")
                    if elsewhere and self._waiting.get(result.tool_call_id) != result:
                        result = replace(result, untrusted=True)
                    self._settle(result, tools)
                    if result.untrusted or elsewhere:
                        self._outside[result.name] = None  # whoever ran it, what it says was not judged here

    def _read_outside(self, source: str) -> None:
        self._untrusted.add(source)
        self._outside[source] = None

    def _settle(self, result: ToolResult, tools: RegisteredTools) -> None:
        if self._waiting.get(result.tool_call_id) == result:
            return  # it is told by the record and by who made it
        self._new.append((result, tools))
        self._waiting[result.tool_call_id] = result
        if result.labels is not None and result.labels.private:
            self._has_private = True

    # ── what is made of it ───────────────────────────────────────────────────────────

    @property
    def untrusted(self) -> set[str]:
        """The tools and other sources whose words from outside were read, also where values are not followed."""
        self._catch_up()
        return self._untrusted

    @property
    def outside(self) -> dict[str, None]:
        """What was read from outside: the names of tools, documents and other sources."""
        self._catch_up()
        return self._outside

    @property
    def has_private(self) -> bool:
        """Whether a result has private fields."""
        self._catch_up()
        return self._has_private

    def arguments_of(self, call_id: str) -> dict[str, Any]:
        """What a call was made with, as far as that can be read."""
        self._catch_up()
        return _object(self._arguments.get(call_id))

    @property
    def words(self) -> TrustedWords:
        """The trusted words."""
        self._take_in()
        self._words.read()
        return self._words

    @property
    def private(self) -> PrivateValues:
        """The private values."""
        self._take_in()
        return self._private

    def results(self) -> list[ResultRecords]:
        """The results, the latest first."""
        self._take_in()
        return list(reversed(self._results.values()))

    def result_of(self, call_id: str) -> ResultRecords | None:
        """The result of a call, if it gave one."""
        self._take_in()
        return self._results.get(call_id)

    def outsiders_write_time(self, minutes: int) -> bool:
        """Whether outsiders may have written a time of day: also where too much of what they wrote is to be read."""
        known = self.results()
        if not self._outside.keys() <= {each.result.name for each in known} | {name for _, name in self._held}:
            return True
        written, left = WrittenDates(), _MOST_TIMES
        for result in (*known, *self._held.values()):
            for record in result.records:
                for field in record.fields:
                    if field.outside and isinstance(field.value, str):
                        left -= len(field.value)
                        if left < 0:
                            return True
                        written.read(field.value, ())
        return minutes in written.minutes

    def holding(self, value: Any) -> Iterator[ResultRecords]:
        """The results in which a value may stand, the latest first."""
        self._take_in()
        ids = self._index.holding(value)
        for id in reversed(self._results):
            if id in ids:
                yield self._results[id]
        for known in self._held.values():
            if known.may_hold(value):
                yield known

    def _take_in(self) -> None:
        self._catch_up()
        if not self._new:
            return
        new, self._new = self._new, []
        self._waiting.clear()
        for result, tools in new:
            if result.outcome != "ok":
                continue  # what a refusal says repeats what was asked
            result = whole_result(result)
            tool = _tool(tools, result.name)
            known = ResultRecords(
                result,
                result.name if tool is None else tool.scoped_name,
                self.arguments_of(result.tool_call_id),
                changes=tool is not None and not tool.reads,
                sends_out=tool is not None and tool.definition.sends_out,
            )
            self._private.add(known)
            if not known.is_mixed and not _CLOCKS.isdisjoint(name_words(result.name)):
                self._read_clock(known)
            self._results[result.tool_call_id] = known
            self._index.add(result.content, result.tool_call_id)
        while len(self._results) > MOST_RESULTS:
            old = next(iter(self._results))
            del self._results[old]
            self._index.forget(old)

    def _read_clock(self, known: ResultRecords) -> None:
        from handrail.execute.origins.written_dates import WrittenDates

        told = WrittenDates()
        for record in known.records:
            for field in record.fields:
                if isinstance(field.value, str) and len(field.value) <= 200:
                    told.read(field.value, ())
        days: set[date] = told.days
        if len(days) == 1:
            self._words.written_on(days.pop())


def _read(name: str, text: str) -> ResultRecords:
    result = ToolResult(name, name, text, untrusted=True)
    return ResultRecords(result, name, {}, changes=False)


def _tool(tools: RegisteredTools, name: str) -> Tool | None:
    return tools.find(name) if name in tools else None


def _object(arguments: Mapping[str, Any] | str | None) -> dict[str, Any]:
    if isinstance(arguments, str):
        try:
            return parse_object(arguments) if arguments.strip() else {}
        except JSONTextError:
            return {}
    return {} if arguments is None else dict(arguments)
