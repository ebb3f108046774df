"""How each format is written: one row each. What is read is wider; see `shapes`.

A row's frame is the text around a call's name and its arguments as JSON. It is used
to render past calls, to tell the model what to write, and to make grammars.
"""

from __future__ import annotations

import json
import re
from typing import Literal

from msgspec import Struct

from handrail.core.errors import UsageError

_NOT_IN_NAMES = re.compile(r"[^\w.:/-]")


class Frame(Struct, frozen=True):
    """`opens` NAME `middle` ARGUMENTS `closes`."""

    opens: str
    middle: str
    closes: str
    quoted: bool = True
    """The name stands in a JSON string."""

    def begin(self, name: str) -> str:
        """Up to the arguments. An odd name outside quotes was never offered; it must still make one call."""
        if not self.quoted:
            return self.opens + (_NOT_IN_NAMES.sub("_", name) or "_") + self.middle
        return self.opens + json.dumps(name, ensure_ascii=False)[1:-1].replace("<", "\\u003c") + self.middle


class Format(Struct, frozen=True, kw_only=True):
    name: str
    frame: Frame
    calls: Literal["json", "parameters", "python"] = "json"
    """What the model is told to write: the frame, or something that cannot say every call; those go in the frame."""
    tools: Literal["lines", "json"] = "lines"
    """How the tools are listed: a line per argument, or the schemas, where models were trained on them."""
    answers: Literal["tags", "observation", "harmony", "words"] = "words"
    """How results are given."""
    stop: tuple[str, ...] = ()
    """Where the model must stop, so that it does not write the results itself."""


def _tagged(opens: str, closes: str) -> Frame:
    return Frame(opens + '\n{"name": "', '", "arguments": ', "}\n" + closes)


_HERMES = _tagged("<tool_call>", "</tool_call>")

_ROWS = (
    Format(name="hermes", frame=_HERMES, tools="json", answers="tags"),
    Format(name="xml", frame=_HERMES, answers="tags"),
    Format(name="special_token", frame=_tagged("<|tool_call|>", "</|tool_call|>"), answers="tags"),
    Format(name="llama", frame=_tagged("<function_call>", "</function_call>"), tools="json"),
    Format(name="json", frame=Frame('{"name": "', '", "arguments": ', "}")),
    Format(name="pythonic", calls="python", frame=_tagged("```tool_code", "```")),
    Format(
        name="harmony",
        frame=Frame("<|channel|>commentary to=functions.", " <|constrain|>json<|message|>", "<|call|>", quoted=False),
        answers="harmony",
    ),
    Format(name="nemotron", calls="parameters", frame=_HERMES, tools="json", answers="tags"),
    Format(
        name="react",
        frame=Frame('action: {"tool": "', '", "arguments": ', "}"),
        answers="observation",
        stop=("\nObservation",),
    ),
    Format(name="tool_use", frame=_tagged("<tool_use>", "</tool_use>"), answers="tags"),
    Format(name="tool_prefix", frame=Frame("tool: [", "]: ", "", quoted=False)),
)
FORMATS = {row.name: row for row in _ROWS}
_ALIASES = {
    "qwen": "hermes",
    "function_call": "llama",
    "raw": "json",
    "raw_json": "json",
    "tool_code": "pythonic",
    "gemma": "pythonic",
    "gpt-oss": "harmony",
    "claude": "tool_use",
    "openai": "tool_prefix",
}


def format_named(name: str) -> Format:
    """A format by its name or one of its other names.

    Raises:
        UsageError: There is none of that name.
    """
    found = FORMATS.get(_ALIASES.get(name, name))
    if found is None:
        raise UsageError(f"no text format {name!r} for tool calls; the formats are: {', '.join(sorted(FORMATS))}")
    return found
