"""A stream of text to text and calls. The markup of a call never comes out as text.

Text is held back only while it could still begin a call. However the text is cut into
pieces, the same comes out. What opens like a call and is none goes out as the text it
is. A call that is never closed is read at the end, as far as it has one reading; if it
has none, once more with every mark taken for what it is, even inside strings. One that
ends inside a value, or before its arguments, is half a call and never given out.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Literal

from msgspec import Struct

from handrail.core.errors import ProtocolError
from handrail.models.prompted.body_scanners import (
    FENCE,
    BalancedScanner,
    BodyScanner,
    ClosedValueScanner,
    FencedScanner,
    UntilMarkScanner,
)
from handrail.models.prompted.call_parser import ends_inside_value, read_arguments, salvaged_call
from handrail.models.prompted.call_shapes import CLOSES, CODE, CODE_NAMES, LONGEST_HEAD, CallShape
from handrail.models.prompted.format_marks import begins_as_a_call, marks_of_format, may_precede_call_value
from handrail.models.prompted.found_call import FoundCall, Schemas, name_without_namespace


class DetectedThought(Struct, frozen=True):
    """Reasoning, which is neither text nor a call."""

    text: str


Piece = str | FoundCall | DetectedThought
_State = Literal["scan", "info", "opened", "headed", "body", "after", "thinking", "thought"]
_WINDOW = 1024
"""Long texts are looked at in pieces, so that their length does not tell in the time that each mark takes."""
_INFO = re.compile(r"[ \t]*(\w{0,20})(?=\W)")
_LONGEST_INFO = 40
_BROKE_OFF = "the reply broke off in the middle of a tool call; ask again"
_STRAY = re.compile(r"[\s}\]]*")


class CallDetector:
    """Fed the text of one reply. `dropped` says afterwards that half a call was left out."""

    def __init__(self, format: str, schemas: Schemas) -> None:
        self._marks = marks_of_format(format)
        self._schemas = schemas
        self._steps = {
            "scan": self._scan,
            "info": self._info,
            "opened": self._opened,
            "headed": self._headed,
            "body": self._body,
            "after": self._after,
            "thinking": self._thinking,
            "thought": self._thought,
        }
        self._state: _State = "scan"
        self._rest = ""
        """Read, not yet decided."""
        self._out: list[Piece] = []
        self._gap: list[str] = []
        """Space after what was said: it goes out before the next text, and not at all beside a call."""
        self._fresh = True
        self._at_line = True
        self._after_call = False
        self._loose = False
        self._called = False
        self._quoting = False
        """In a fence that is no call."""
        self.dropped = False

    def feed(self, text: str) -> Iterator[Piece]:
        self._run(text)
        yield from self._flush()

    def finish(self, *, cut: bool = False) -> Iterator[Piece]:
        """The rest. `cut`: the reply ended before the model was done, so nothing is completed.

        Raises:
            ProtocolError: It broke off in a call.
        """
        while not self._ended(cut=cut):
            self._run("")
        if not self._after_call:
            self._out.extend(space for space in self._gap if space)
        yield from self._flush()

    def _run(self, text: str) -> None:
        for start in range(0, max(len(text), 1), _WINDOW):
            self._rest += text[start : start + _WINDOW]
            while self._rest and self._steps[self._state]():
                pass

    def _flush(self) -> Iterator[Piece]:
        out, self._out = self._out, []
        yield from out

    # Each step looks at the rest, and returns whether it came further.

    def _scan(self) -> bool:
        text = self._rest
        blank = len(text) - len(text.lstrip())
        for found in self._marks.opening.finditer(text):
            group = found.lastgroup or ""
            shape = self._marks.shapes[found[group]]
            if group == "line" and not (found.start() or self._at_line):
                continue
            if shape.alone and not shape.fence and not (self._fresh and found.start(group) <= blank):
                continue
            if self._quoting and shape.opens in ("{", "["):
                continue
            if found[group] in self._marks.foreign and not self._may_stray(text[: found.start(group)]):
                continue
            self._say(text[: found.start(group)])
            if shape.hidden:
                self._rest = text[found.end() :]
            else:
                self._open(shape, text[found.end() :])
            return True
        cut = len(text) - self._marks.held(text, at_line=self._at_line)
        self._say(text[:cut])
        self._rest = text[cut:]
        return False

    def _may_stray(self, before: str) -> bool:
        """Whether a mark of another format, after this text, is meant and not quoted."""
        _, broken, line = before.rpartition("\n")
        return not self._quoting and not line.strip() and (bool(broken) or self._at_line)

    def _open(self, shape: CallShape, rest: str) -> None:
        self._shape = shape
        self._source = [shape.opens]
        self._name = ""
        self._fenced = False
        self._closed = False
        self._rest = rest
        self._state = "thinking" if shape.thought else "info" if shape.fence else "opened"

    def _info(self) -> bool:
        """After a fence: the word that says what it holds."""
        found = _INFO.match(self._rest)
        if found is None:
            return len(self._rest) > _LONGEST_INFO and self._give_up()
        self._fenced = True
        if self._shape.fence and found[1] in CODE_NAMES:
            self._shape = CODE
        self._take(found.end())
        self._state = "opened"
        return True

    def _opened(self) -> bool:
        """After an opening mark: perhaps another, and then the inside."""
        text = self._rest.lstrip()
        self._take(len(self._rest) - len(text))
        if not text:
            return False
        if self._shape.opens in ("{", "["):
            return self._enter_bare(text[0])
        if (found := self._marks.nested.match(text)) is not None:
            example = self._source[0] == FENCE and not (self._fresh or self._quoting)
            if example and found[0] in self._marks.foreign:
                return self._give_up()
            self._take(found.end())
            if found[0] == FENCE:
                self._state = "info"
            else:
                self._shape = self._marks.shapes[found[0]]
            return True
        return text not in self._marks.nested_prefixes and self._enter(text[0])

    def _enter_bare(self, first: str) -> bool:
        """What opened it belongs to it."""
        if first not in self._shape.first:
            return self._give_up()
        self._rest = "".join(self._source) + self._rest
        self._source = []
        return self._begin(BalancedScanner())

    def _enter(self, first: str) -> bool:
        shape = self._shape
        if shape.first and first not in shape.first:
            return self._give_up()
        if shape.head is not None and first != "{" and not (first == "[" and (self._fenced or not shape.plain)):
            self._state = "headed"
            return True
        if first in "{[" and (self._fresh or not shape.alone):
            return self._begin(BalancedScanner())
        if not shape.closes:
            return self._give_up()
        if shape.strings:
            return self._begin(UntilMarkScanner.any_of(shape.closes, shape.strings))
        return self._begin(FencedScanner() if shape is CODE else ClosedValueScanner(shape.closes))

    def _headed(self) -> bool:
        """After an opening mark that a name follows."""
        found = self._shape.head.match(self._rest, 0, LONGEST_HEAD) if self._shape.head else None
        if found is None:
            return len(self._rest) >= LONGEST_HEAD and self._give_up()
        self._take(found.end())
        if found[1] is None:
            self._state = "opened"
            return True
        self._name = found[1]
        self._fenced = self._fenced or FENCE in found[0]
        is_value = self._rest.startswith(("{", '"') if self._shape.closes else "{")
        return self._begin(BalancedScanner() if is_value else UntilMarkScanner.any_of(self._shape.closes or ("\n",)))

    def _begin(self, scanner: BodyScanner) -> bool:
        self._scanner = UntilMarkScanner(self._marks.ending, self._marks.longest_ending) if self._loose else scanner
        self._inside: list[str] = []
        self._state = "body"
        return True

    def _body(self) -> bool:
        end = self._scanner.feed(self._rest)
        self._inside.append(self._rest)
        last, self._rest = len(self._rest), ""
        if end is None:
            return False
        text = "".join(self._inside)
        self._settle(text, len(text) - last + end)
        return True

    def _settle(self, text: str, end: int) -> None:
        """The inside ended there: it is a call, or it is text."""
        if self._loose and text[:1] in ("{", "["):
            end = BalancedScanner().feed(text[:end]) or end
        body, self._rest = text[:end], text[end:]
        calls = self._read(body)
        if calls is None and not self._shape.plain:
            calls = self._salvaged(body)
        if calls is None:
            self._unread(body)
            return
        self._out.extend(calls)
        self._called = self._called or bool(calls)
        self._fresh = False
        self._after_call = True
        self._state = "after"

    def _salvaged(self, body: str) -> tuple[FoundCall, ...] | None:
        if self._name:
            return (FoundCall(name_without_namespace(self._name, self._schemas), body.strip()),)
        call = salvaged_call(body, self._schemas)
        return None if call is None else (call,)

    def _read(self, body: str) -> tuple[FoundCall, ...] | None:
        if self._name:
            return read_arguments(self._name, body, self._schemas)
        if not body.strip():
            return ()
        calls = self._shape.reader(body, self._schemas)
        if calls and self._shape.alone and any(call.name not in self._schemas for call in calls):
            return None
        return calls

    def _after(self) -> bool:
        """After a call: closing marks, right or wrong, or a further call before them."""
        stray = None if self._closed else _STRAY.match(self._rest)
        text = self._rest[stray.end() :] if stray else self._rest.lstrip()
        for mark in (*CLOSES, *self._shape.closes, *((FENCE,) if self._fenced else ())):
            if text.startswith(mark):
                self._closed = True
                self._fenced = self._fenced and mark != FENCE
                self._rest = text[len(mark) :]
                return True
        if not text or text in self._marks.closing_prefixes or self._rest.strip() in (",", ";"):
            return False
        if not self._another():
            self._quoting = self._fenced
            self._state = "scan"
        return True

    def _another(self) -> bool:
        """A further value between the same marks."""
        text = self._rest.lstrip()
        if text[0] in ",;":
            text = text[1:].lstrip()
        if self._closed or self._name or self._loose or not text.startswith("{"):
            return False
        self._source = [self._rest[: len(self._rest) - len(text)]]
        self._rest = text
        return self._begin(BalancedScanner())

    @property
    def _before(self) -> str:
        """What was taken last: a mark, or the space after it."""
        return self._source[-1] if self._source else ""

    def _take(self, count: int) -> None:
        self._source.append(self._rest[:count])
        self._rest = self._rest[count:]

    def _give_up(self) -> bool:
        """Gives up a call: what opened it is text, and what follows is read again."""
        self._unread("")
        return True

    def _unread(self, body: str) -> None:
        if self._source[:1] == [FENCE]:
            self._quoting = not self._quoting
        self._say("".join(self._source) + body)
        self._state = "scan"

    def _thinking(self) -> bool:
        closing = self._shape.closes[0]
        text, closed, rest = self._rest.partition(closing)
        kept = 0 if closed else next((n for n in range(len(closing) - 1, 0, -1) if text.endswith(closing[:n])), 0)
        if thought := text[: len(text) - kept]:
            self._out.append(DetectedThought(thought))
        self._rest = rest if closed else text[len(text) - kept :]
        self._state = "thought" if closed else "thinking"
        return bool(closed)

    def _thought(self) -> bool:
        """After a thought: the space between it and what is said belongs to neither."""
        self._rest = self._rest.lstrip()
        self._at_line = True
        if self._rest:
            self._state = "scan"
        return bool(self._rest)

    def _say(self, text: str) -> None:
        if not text:
            return
        if self._after_call and text[0].isspace():
            self._gap = []
        self._after_call = False
        words = text.rstrip()
        if words:
            self._out.append("".join(self._gap) + words)
            self._gap = []
            self._fresh = False
        self._gap.append(text[len(words) :])
        _, broken, line = text.rpartition("\n")
        self._at_line = (bool(broken) or self._at_line) and not line.strip()

    # The end.

    def _ended(self, *, cut: bool) -> bool:
        """Whether the end of the text was the end of what we were at; otherwise there is more to look at."""
        rest = self._rest
        match self._state:
            case "body":
                return self._ended_inside(cut=cut)
            case "headed" if self._shape.head and self._shape.head.match(rest + "\n", 0, LONGEST_HEAD):
                self._rest = rest + "\n"
                return False
            case "info" | "opened" | "headed" if self._shape.plain:
                self._give_up()
                return False
            case "scan":
                self._say(rest)
            case "thinking" if rest:
                self._out.append(DetectedThought(rest))
            case "after" if rest.strip()[:1] in tuple(",;`"):
                self._say(rest)
            case "info" | "opened" | "headed":
                return self._ended_before_a_value(cut=cut)
        self._rest = ""
        self._state = "scan"
        return True

    def _ended_before_a_value(self, *, cut: bool) -> bool:
        """After an opening mark: nothing, the beginning of a call, or words about the mark."""
        if not may_precede_call_value(self._rest, self._before, self._marks):
            self._give_up()
            return False
        if not cut and (self._rest.strip() or not self._called):  # after a call, a mark alone may be meant to close it
            raise ProtocolError(_BROKE_OFF)
        self.dropped = self.dropped or cut
        self._rest = ""
        self._state = "scan"
        return True

    def _ended_inside(self, *, cut: bool) -> bool:
        body = "".join(self._inside)
        self._state = "scan"
        certain = not self._shape.plain or bool(self._name)
        """What opened it is not what somebody might have written as text."""
        if cut and certain:
            self.dropped = True
            return True
        calls = None if cut else self._read(body)
        half = calls is not None and (ends_inside_value(body, calls) or (self._name != "" and body[:1] == "<"))
        if calls is not None and not half:
            self._settle(body, len(body))
            return False
        if not cut and not self._loose:
            self._loose = True
            self._begin(self._scanner)
            self._run(body)
            return False
        said = salvaged_call(body, self._schemas)
        begun = half or self._name or begins_as_a_call(body, self._before, self._shape, self._marks, self._schemas)
        if begun or (said is not None and (certain or said.name in self._schemas)):
            if not cut:
                raise ProtocolError(_BROKE_OFF)
            self.dropped = True
            return True
        self._unread(body)
        return False
