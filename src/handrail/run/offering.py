"""Which tools a turn offers: all, or with more than a limit those that fit what was said.

What is offered follows from the conversation alone, so a run that is taken up again or
told again offers the same. It grows at its end, so that a service that keeps the
beginning of a request finds it unchanged. It decides what a model is shown, not what it
may call: a call to a tool that was not shown is checked and run like any other.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache

from msgspec import Struct
from msgspec.structs import replace

from handrail.core.context import Context
from handrail.core.errors import UsageError
from handrail.core.messages import InvocationMessage, Message, ResultMessage, UserMessage
from handrail.core.model_request import NamedTool, ToolChoice, ToolOffer
from handrail.core.ports import Model, SearchesTools
from handrail.execute.executor import Executor
from handrail.tools.finder import ALWAYS, FIND_TOOLS, ToolFinder, find_tools_tool, tool_names_found
from handrail.tools.registry import RegisteredTools
from handrail.tools.tool import Tool
from handrail.tools.word_forms import LONGEST

ALWAYS_VALID = ("find_tools", "read_output", "run_code")
"""What the runtime itself offers is valid for every model."""
_REMEMBERED = 1_024
"""Messages of which is known what fits them."""


class Programs(Struct, frozen=True):
    """The tools that programs of the model may call, and where those programs run."""

    tools: frozenset[str] = frozenset()
    by_service: bool = False
    """The service runs them, and is told which tools they may call. Else our own tool does, and these are not shown."""

    def hides(self, name: str) -> bool:
        return not self.by_service and name in self.tools


NO_PROGRAMS = Programs()


@dataclass(frozen=True, slots=True, kw_only=True)
class Offering:
    """One value for code and for the `[offering]` table of a file."""

    most: int = 64
    """The most tools of which all are offered; with more, so many at once at most, besides those of the tag `always`.
    Models choose worse from some 30 to 50 tools on, and no service that we know takes fewer than 128."""
    found: int = 8
    """Tools that each thing the user says brings at most."""
    native: bool = True
    """Whether a service that searches tools itself is given all of them, and does."""

    def __post_init__(self) -> None:
        for name in ("most", "found"):
            if getattr(self, name) < 1:
                raise UsageError(f"{name} must be at least 1, not {getattr(self, name)!r}")

    def equip(self, executor: Executor, programs: Programs = NO_PROGRAMS) -> None:
        """Give an executor of many tools the one by which models find more.

        Raises:
            UsageError: Another tool has its name.
        """
        if not any(map(_is_finder, executor.tools)) and _shown_count(executor.tools, programs) > self.most:
            tools = executor.tools
            executor.include(tools.shared.get("finder", lambda: find_tools_tool(tools)))


class TurnOffer(Struct, frozen=True):
    """What one turn offers. As long as nothing changes it is the same object, and so are its parts."""

    tools: tuple[ToolOffer, ...]
    names: tuple[str, ...]
    """The names of the tools that the model sees at once."""


class OfferableTools:
    """The tools that one model may call, and how a conversation is offered them."""

    def __init__(
        self,
        offering: Offering,
        of: RegisteredTools,
        model: Model,
        valid: tuple[tuple[str, ...], ...] = (),
        programs: Programs = NO_PROGRAMS,
    ) -> None:
        self.of = of
        tools = of.for_model(model.name)
        if valid:
            scope = Context(within=valid)
            tools = RegisteredTools(tool for tool in tools if scope.allows(*tool.names))
        own = [tool for tool in tools if not _is_finder(tool) and not programs.hides(tool.name)]
        offers = {tool.name: _offer(tool, by_program=tool.name in programs.tools) for tool in own}
        self.many = len(own) > offering.most
        self.everything = _shown(offers.values())
        self.native = self.many and offering.native and _searches_tools(model)
        self._found = offering.found
        self.pinned = tuple(tool.name for tool in own if ALWAYS in tool.definition.tags)
        self.room = max(offering.most - len(self.pinned) - 1, 1)
        """For tools that come and go."""
        self.by_name = offers
        self.finder = tuple(_offer(tool) for tool in of if _is_finder(tool))
        self._plain = {name: tool.name for tool in own for name in (tool.name, tool.scoped_name)}
        self._tools = next((tool.handler.tools for tool in of if isinstance(tool.handler, ToolFinder)), tools)
        self._fitting = lru_cache(maxsize=_REMEMBERED)(self._search)

    @classmethod
    def shared(
        cls,
        offering: Offering,
        of: RegisteredTools,
        model: Model,
        valid: tuple[tuple[str, ...], ...] = (),
        programs: Programs = NO_PROGRAMS,
    ) -> OfferableTools:
        """The same for every runner that offers a set alike, so that its offers are made and encoded once."""
        searches = len(of) > offering.most and _searches_tools(model)
        key = (cls, offering, model.name, searches, valid, programs)
        return of.shared.get(key, lambda: cls(offering, of, model, valid, programs))

    def _search(self, text: str) -> tuple[str, ...]:
        return tuple(self._tools.index.search(text, self._found, self.by_name.__contains__))

    @property
    def names(self) -> frozenset[str]:
        return frozenset((*self.by_name, *(offer.name for offer in self.finder if self.many)))

    def begin(self) -> ToolSelection:
        return ToolSelection(self)

    def wanted(self, message: Message) -> tuple[str, ...]:
        """The tools that a message asks for: by its words, by calling them, or as what was found."""
        match message:
            case UserMessage():
                return self._fitting(message.text[:LONGEST])
            case InvocationMessage(call=call):
                named: Iterable[str] = (self._plain.get(call.name, ""),)
            case ResultMessage(result=result) if result.name == FIND_TOOLS:
                named = tool_names_found(result)
            case _:
                return ()
        return tuple(name for name in named if name in self.by_name)


class ToolSelection:
    """What one conversation has come to be offered. It reads each message once, as long as the conversation grows."""

    def __init__(self, offers: OfferableTools) -> None:
        self.offers = offers
        self._forget()

    def _forget(self) -> None:
        self._read = 0
        self._last: Message | None = None
        self._wanted: dict[str, int] = {}
        """The tools that come and go, in the order in which they are offered; the message that last asked for each."""
        self._shown: TurnOffer | None = None

    def shown(self, messages: Sequence[Message], choice: ToolChoice = "auto") -> TurnOffer:
        """What the next turn offers. A tool that is chosen by name is offered, whatever was said."""
        offers = self.offers
        if not offers.many:
            return offers.everything
        if self._read > len(messages) or (self._read and messages[self._read - 1] is not self._last):
            self._forget()  # something was taken back, or this is another conversation
        self._take(messages)
        if self._shown is None:
            self._shown = self._compose(())
        if isinstance(choice, NamedTool) and choice.name in offers.by_name and choice.name not in self._shown.names:
            return self._compose((choice.name,))
        return self._shown

    def _take(self, messages: Sequence[Message]) -> None:
        for at in range(self._read, len(messages)):
            # What a service found by itself it remembers itself. Its tools stay as they were after the first question,
            # so that everything it keeps of a request stays good.
            if not self.offers.native or not self._wanted:
                self._add(self.offers.wanted(messages[at]), at)
        if messages:
            self._read, self._last = len(messages), messages[-1]

    def _add(self, names: tuple[str, ...], at: int) -> None:
        room = self.offers.room
        wanted = list(dict.fromkeys(name for name in names if name not in self.offers.pinned))[:room]
        there = [name for name in wanted if name in self._wanted]
        new = [name for name in wanted if name not in self._wanted]
        self._wanted |= dict.fromkeys(there, at)
        if not new:
            return
        if len(self._wanted) + len(new) > room:
            self._thin_out(max(min(room // 2, room - len(new)), len(there)))
        self._wanted |= dict.fromkeys(new, at)
        self._shown = None

    def _thin_out(self, keep: int) -> None:
        """Keep those that were asked for last. Half at once, so that the offer then stays as it is for a while."""
        latest = sorted(self._wanted, key=lambda name: -self._wanted[name])[:keep]
        self._wanted = {name: at for name, at in self._wanted.items() if name in latest}

    def _compose(self, chosen: tuple[str, ...]) -> TurnOffer:
        offers = self.offers
        names = dict.fromkeys((*offers.pinned, *self._wanted, *chosen))
        seen = [offers.by_name[name] for name in names]
        if offers.native:
            rest = (replace(offer, deferred=True) for name, offer in offers.by_name.items() if name not in names)
            return _shown((*seen, *rest))
        pinned = len(offers.pinned)
        return _shown((*seen[:pinned], *offers.finder, *seen[pinned:]))


def _shown(tools: Iterable[ToolOffer]) -> TurnOffer:
    tools = tuple(tools)
    return TurnOffer(tools, tuple(tool.name for tool in tools if not tool.deferred))


def _offer(tool: Tool, *, by_program: bool = False) -> ToolOffer:
    return ToolOffer(tool.name, tool.definition.description, tool.definition.input_schema, by_program=by_program)


def _shown_count(tools: RegisteredTools, programs: Programs) -> int:
    return sum(not programs.hides(tool.name) for tool in tools)


def _searches_tools(model: Model) -> bool:
    return isinstance(model, SearchesTools) and model.searches_tools


def _is_finder(tool: Tool) -> bool:
    return isinstance(tool.handler, ToolFinder)


class ExternalTools:
    """Tools of one run that the caller runs itself: offered beside the others, and never settled here."""

    def __init__(self, offers: tuple[ToolOffer, ...]) -> None:
        self._offers = offers
        self.names = dict.fromkeys(offer.name for offer in offers)
        """Of tools that are not run here, whatever else goes by them."""
        self._joined: tuple[TurnOffer, tuple[ToolOffer, ...]] | None = None

    def beside(self, shown: TurnOffer) -> tuple[ToolOffer, ...]:
        """What is offered with them: the same object as long as it is the same."""
        if not self._offers:
            return shown.tools
        if self._joined is None or self._joined[0] is not shown:
            self._joined = shown, (*shown.tools, *self._offers)
        return self._joined[1]

    def left_here(self, calls: tuple[InvocationMessage, ...]) -> tuple[InvocationMessage, ...]:
        """The calls that the executor settles."""
        return tuple(each for each in calls if each.call.name not in self.names) if self.names else calls
