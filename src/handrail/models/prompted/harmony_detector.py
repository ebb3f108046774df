"""The harmony format: not text with calls in it, but a stream of messages with channels and recipients.

`<|channel|>analysis<|message|>…<|end|>` is reasoning,
`<|channel|>commentary to=functions.NAME <|constrain|>json<|message|>{…}<|call|>` a call, the rest is text.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Literal

from handrail.core.errors import ProtocolError
from handrail.models.prompted.body_scanners import BalancedScanner
from handrail.models.prompted.call_detector import DetectedThought
from handrail.models.prompted.call_parser import read_arguments
from handrail.models.prompted.found_call import FoundCall, Schemas, name_without_namespace

_TOKEN = re.compile(r"<\|(?:start|channel|message|constrain|end|call|return)\|>")
_LONGEST = len("<|constrain|>")
_PREFIXES = frozenset(
    f"<|{word}|>"[:end]
    for word in ("start", "channel", "message", "constrain", "end", "call", "return")
    for end in range(1, len(word) + 4)
)
_RECIPIENT = re.compile(r"to=([^\s<]+)")
_Kind = Literal["text", "reasoning", "call", "header"]


class HarmonyDetector:
    """Finds calls, thoughts and text as `CallDetector` does, in harmony."""

    def __init__(self, schemas: Schemas) -> None:
        self._schemas = schemas
        self._rest = ""
        self._kind: _Kind = "text"
        self._kept: list[str] = []
        """The header, or the arguments of the call, so far."""
        self._name = ""
        self._value: BalancedScanner | None = None
        """Follows the arguments of the call until they are whole."""
        self._quoted = 0
        """How many pieces were kept before the first token inside a string; 0 if there was none."""
        self._loose = False
        self.dropped = False

    def feed(self, text: str) -> Iterator[str | FoundCall | DetectedThought]:
        text = self._rest + text
        position = 0
        for token in _TOKEN.finditer(text):
            yield from self._content(text[position : token.start()])
            yield from self._token(token[0])
            position = token.end()
        end = len(text) - _held(text[position:])
        self._rest = text[end:]
        yield from self._content(text[position:end])

    def finish(self, *, cut: bool = False) -> Iterator[str | FoundCall | DetectedThought]:
        """The rest.

        Raises:
            ProtocolError: It broke off in a call.
        """
        yield from self._ended()
        if self._kind == "call" and self._quoted and not cut and self._read() is None:
            yield from self._again()
        unfinished = self._kind == "call" or (self._kind == "header" and _RECIPIENT.search("".join(self._kept)))
        if unfinished and cut:
            self.dropped = True
        elif unfinished:
            call = self._read() if self._kind == "call" else None
            if call is None:
                raise ProtocolError("the reply broke off in the middle of a tool call; ask again")
            yield from call

    def _ended(self) -> Iterator[str | FoundCall | DetectedThought]:
        rest, self._rest = self._rest, ""
        yield from self._content(rest)

    def _again(self) -> Iterator[str | FoundCall | DetectedThought]:
        """A string that never ended has swallowed tokens: take them for what they are."""
        swallowed, self._kept = "".join(self._kept[self._quoted :]), self._kept[: self._quoted]
        self._loose = True
        yield from self.feed(swallowed)
        yield from self._ended()

    def _content(self, text: str) -> Iterator[str | FoundCall | DetectedThought]:
        if not text:
            return
        match self._kind:
            case "text":
                yield text
            case "reasoning":
                yield DetectedThought(text)
            case _:
                self._kept.append(text)
                if self._value is not None and self._value.feed(text) is not None:
                    self._value = None

    def _token(self, token: str) -> Iterator[str | FoundCall | DetectedThought]:
        if self._value is not None and self._value.in_string and not self._loose:
            self._quoted = self._quoted or len(self._kept)
            yield from self._content(token)
            return
        if self._kind == "call" and (token != "<|message|>" or "".join(self._kept).strip()):
            yield from self._call()
            self._kept = []
        self._value, self._quoted = None, 0
        match token:
            case "<|message|>":
                self._enter("".join(self._kept))
            case "<|start|>" | "<|channel|>" | "<|constrain|>":
                # A header may hold both `<|start|>assistant to=…` and `<|channel|>…`: they join.
                if self._kind != "header":
                    self._kind, self._kept = "header", []
                self._kept.append(" ")
            case _:
                self._kind, self._kept = "text", []

    def _enter(self, header: str) -> None:
        recipient = _RECIPIENT.search(header)
        self._kept = []
        if recipient is not None:
            self._kind, self._name, self._value = "call", recipient[1], BalancedScanner()
        else:
            self._kind = "reasoning" if "analysis" in header else "text"

    def _call(self) -> Iterator[FoundCall]:
        body = "".join(self._kept).strip()
        yield from self._read() or (FoundCall(name_without_namespace(self._name, self._schemas), body or "{}"),)

    def _read(self) -> tuple[FoundCall, ...] | None:
        body = "".join(self._kept).strip()
        return read_arguments(self._name, body, self._schemas) if body.startswith(("{", '"')) else None


def _held(text: str) -> int:
    for count in range(min(len(text), _LONGEST - 1), 0, -1):
        if text[-count:] in _PREFIXES:
            return count
    return 0
