"""How calls are recognised in what a model writes: one row per opening mark.

Marks that nobody writes by chance are looked for in every format, since models stray
from the one they were told; but one that belongs to another format counts only at the
beginning of a line and outside fences, since elsewhere it is quoted. What could be
ordinary text, such as a brace, counts only where the format says so, or as the whole of
a reply that calls an offered tool. What a model thinks aloud is never a call.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Literal

from msgspec import Struct

from handrail.providers.prompted.parse import Found, Schemas, read, read_bare, read_function, read_invoke

Reader = Callable[[str, Schemas], tuple[Found, ...] | None]


class Shape(Struct, frozen=True, kw_only=True):
    opens: str
    closes: tuple[str, ...] = ()
    reader: Reader = read
    where: Literal["anywhere", "line"] = "anywhere"
    """A mark of the kind `line` counts only as the first thing in a line."""
    first: str = ""
    """What may come first in it; empty for anything."""
    head: re.Pattern[str] | None = None
    """What comes before the arguments if they do not come at once. Its group is the name."""
    begun: re.Pattern[str] | None = None
    """What its inside begins with if it is a call for certain, whatever comes after."""
    fence: bool = False
    plain: bool = False
    """It might as well be ordinary text: it goes out as such when it is no call."""
    alone: bool = False
    """Only as the first thing in a reply, and only for an offered tool."""
    thought: bool = False
    """What it encloses is reasoning."""


def _tag(name: str) -> Shape:
    return Shape(opens=f"<{name}>", closes=(f"</{name}>",))


LONGEST_HEAD = 256
_ACTION_INPUT = re.compile(r"\s*([\w.:/-]+)[ \t]*\n\s*[Aa]ction [Ii]nput:(?:\s*(?=\{)|[ \t]*(?=[^\s{][^\n]*\n))")
_BRACKETED = re.compile(r"\s*([\w.:/-]+)\]:\s*(?=[{\"])")
_NAMED = re.compile(r"[\w.:/-]+\"?>")
_RECIPIENT = re.compile(r"\s*([\w.:/-]+)[^{]{0,80}?<\|message\|>\s*(?=\{)")
_HARMONY_ENDS = ("<|call|>", "<|end|>", "<|return|>")

_COMMON = (
    _tag("tool_call"),
    _tag("tool_calls"),
    _tag("function_call"),
    _tag("function_calls"),
    _tag("tool_use"),
    _tag("TOOLCALL"),
    Shape(opens="<|tool_call|>", closes=("</|tool_call|>", "<|/tool_call|>", "</|tool_call|}")),
    Shape(opens="<|python_tag|>", closes=("<|eom_id|>", "<|eot_id|>")),
    Shape(opens="<function=", closes=("</function>",), reader=read_function, begun=_NAMED),
    Shape(opens='<invoke name="', closes=("</invoke>",), reader=read_invoke, begun=_NAMED),
    Shape(opens="<|channel|>commentary to=", closes=_HARMONY_ENDS, head=_RECIPIENT),
    Shape(opens="tool: [", where="line", head=_BRACKETED, plain=True),
)
_THOUGHTS = tuple(
    Shape(opens=f"<{word}>", closes=(f"</{word}>",), where="line", thought=True) for word in ("think", "thinking")
)
_MARKS: dict[str, tuple[str, ...]] = {
    "hermes": ("<tool_call>", "<tool_calls>"),
    "xml": ("<tool_call>", "<tool_calls>", "<function_calls>", '<invoke name="'),
    "special_token": ("<|tool_call|>",),
    "llama": ("<function_call>", "<function_calls>", "<|python_tag|>", "<function="),
    "nemotron": ("<tool_call>", "<tool_calls>", "<function=", "<TOOLCALL>"),
    "tool_use": ("<tool_use>", "<function_calls>", '<invoke name="'),
    "tool_prefix": ("tool: [",),
}
"""Of the marks that every format knows: those of each format's own."""
_LETTERS = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_"


def _bare(lists: str, *, alone: bool) -> tuple[Shape, ...]:
    return tuple(
        Shape(opens=opens, where="line", first=first, reader=read_bare, fence=opens == "```", plain=True, alone=alone)
        for opens, first in (("{", "\"'"), ("[", lists), ("```", ""))
    )


_ALONE = _bare("{", alone=True)
_RAW = _bare("{", alone=False)
_REACT = tuple(
    Shape(opens=word, where="line", head=_ACTION_INPUT, plain=True) for word in ("action:", "Action:", "ACTION:")
)
_OWN: dict[str, tuple[Shape, ...]] = {
    "json": _RAW,
    "llama": _RAW,
    "pythonic": _bare(_LETTERS + "{", alone=False),
    "react": (*_ALONE, *_REACT),
}

CODE = Shape(opens="```", closes=("```",), where="line", fence=True, plain=True)
"""A fence that says it holds a call."""
CODE_NAMES = frozenset({"tool_code", "tool_call", "tool_calls", "function_call"})
CLOSES = tuple(sorted({mark for shape in (*_COMMON, CODE) for mark in shape.closes if mark != "```"}, key=len))[::-1]
"""Every closing mark: models mix them up."""


def shapes(format: str) -> tuple[Shape, ...]:
    """What to look for when a model was told to write this format. No mark begins with another."""
    return (*_COMMON, *_THOUGHTS, *_OWN.get(format, _ALONE))


def foreign(format: str) -> frozenset[str]:
    """The marks of calls that belong to other formats."""
    return frozenset(row.opens for row in _COMMON).difference(_MARKS.get(format, ()))
