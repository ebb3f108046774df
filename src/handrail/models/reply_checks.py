"""Checks a reply against its request, whatever the service does: it ends once, and its calls are those that were
allowed.

- `none`: calls are not given out. If the model also spoke, its words stand and a
  notice says what was dropped; if it only called, the reply is an error.
- `required` and a named tool: a reply that ends without a call is an error, unless
  it was cut short or refused, which its stop reason says.
- `required` is also met by a call that the service ran itself.
- a named tool: a call of another is an error and is not given out.

A reply that says that it stopped for calls and has none is an error too, never an empty answer; unless the calls
were the service's own, which it has run itself.

A reply that could have called a tool, called none, and holds what looks like a call
written as text is given out with a notice: neither its author nor a parser made a call
of it, and somebody should know.

A model that takes no tools, or is offered none, is not held to `required` or to a
named tool: it cannot call any. The encoder's notice says that the choice has no effect.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from msgspec.structs import replace

from handrail.core.errors import BrokenChoice, ProtocolError
from handrail.core.events import (
    CallDelta,
    CallReady,
    CallRequested,
    ModelEvent,
    Notice,
    ReplyFinished,
    ServiceCallMade,
    TextDelta,
)
from handrail.core.model_request import ModelRequest, NamedTool, ToolChoice

_NO_MARKS = re.compile(r"[^<\[{]*+")
"""Matches a text without any mark of a call; the fast path for most replies."""
_CUT_SHORT = frozenset({"max_tokens", "content_filter", "refusal"})


class ReplyChecker:
    """Shown every event of one reply in order."""

    def __init__(self, request: ModelRequest, *, takes_tools: bool = True) -> None:
        can_call = takes_tools and bool(request.tools)
        self._choice: ToolChoice = request.tool_choice if can_call or request.tool_choice == "none" else "auto"
        self._finished = False
        self._spoke = False
        self._called = False
        self._served = False
        self._dropped: list[str] = []
        self._offered = request.tools if can_call and request.tool_choice != "none" else ()
        self._texts: list[str] = []

    @property
    def is_open(self) -> bool:
        """Whether pieces of calls may come, as they are."""
        return self._choice != "none" and not self._finished

    def see(self, event: ModelEvent) -> tuple[ModelEvent, ...]:
        """What of it may be given out.

        Raises:
            BrokenChoice: The reply breaks the choice of tools.
            ProtocolError: It goes on after its end, or says that it calls tools and calls none.
        """
        if self._finished:
            raise ProtocolError("the reply went on after its end")
        match event:
            case CallDelta():
                return () if self._choice == "none" else (event,)
            case CallReady():
                return (event,) if self._choice in ("auto", "required") else ()
            case TextDelta():
                self._spoke = self._spoke or not event.text.isspace()
                if self._offered:
                    self._texts.append(event.text)
            case CallRequested():
                return (event,) if self._allowed(event.call.name) else ()
            case ServiceCallMade():
                self._served = True
            case ReplyFinished():
                self._finished = True
                return tuple(self._ending(event))
        return (event,)

    def close(self) -> None:
        """The reply is over.

        Raises:
            ProtocolError: It had no end.
        """
        if not self._finished:
            raise ProtocolError("the reply was cut off: the service never said that it was finished")

    def _allowed(self, name: str) -> bool:
        match self._choice:
            case "none":
                self._dropped.append(name)
                return False
            case NamedTool(name=wanted) if name != wanted:
                raise BrokenChoice(f"the model was told to call {wanted!r} and called {name!r}; the call was not run")
        self._called = True
        return True

    def _ending(self, end: ReplyFinished) -> Iterator[ModelEvent]:
        if self._dropped:
            names = ", ".join(map(repr, self._dropped))
            if not self._spoke:
                raise BrokenChoice(f"the model was told to call no tool and only called {names}; nothing was run")
            yield Notice(text=f"the model was told to call no tool and called {names}; that was dropped and not run")
            # What a provider wants back beside a call is of no use to it without the call.
            end = replace(end, stop="end" if end.stop == "tool_calls" else end.stop, artefacts=())
        met = self._called or (self._served and self._choice == "required")
        if self._choice not in ("auto", "none") and not met and end.stop not in _CUT_SHORT:
            wanted = repr(self._choice.name) if isinstance(self._choice, NamedTool) else "a tool"
            raise BrokenChoice(f"the model was told to call {wanted} and called none")
        if end.stop == "tool_calls" and not self._called:
            if not self._served:
                raise ProtocolError("the reply says that it stopped for tool calls, and has none that can be read")
            end = replace(end, stop="end")
        if self._texts and not self._called and (words := self._suspicion()) is not None:
            yield Notice(text=words)
        yield end

    def _suspicion(self) -> str | None:
        text = "".join(self._texts)
        if _NO_MARKS.fullmatch(text):
            return None
        from handrail.models.prompted.missed_calls import (
            missed_call_notice,  # rarely needed, and no small thing to load
        )

        return missed_call_notice(text, {tool.name: tool.input_schema for tool in self._offered})
