"""How calls are recognised in what a model writes: one row per opening mark.

Marks that nobody writes by chance are looked for in every format, since models stray
from the one they were told; but one that belongs to another format counts only at the
beginning of a line and outside fences, since elsewhere it is quoted. What could be
ordinary text, such as a brace, counts only where the format says so, or as the whole of
a reply that calls an offered tool. What a model thinks aloud is never a call.
"""

from __future__ import annotations

import re
from typing import Literal

from msgspec import Struct

from handrail.models.prompted.call_parser import (
    delimited_reader,
    read_bare_calls,
    read_by_key,
    read_calls,
    read_dsml,
    read_function_element,
    read_invoke,
    read_step,
)
from handrail.models.prompted.found_call import Reader


class CallShape(Struct, frozen=True, kw_only=True):
    opens: str
    closes: tuple[str, ...] = ()
    reader: Reader = read_calls
    where: Literal["anywhere", "line"] = "anywhere"
    """A mark of the kind `line` counts only as the first thing in a line."""
    first: str = ""
    """What may come first in it; empty for anything."""
    head: re.Pattern[str] | None = None
    """What comes before the arguments if they do not come at once. Its group is the name; without one, a further mark
    follows."""
    begun: re.Pattern[str] | None = None
    """What its inside begins with if it is a call for certain, whatever comes after."""
    strings: str = ""
    """What strings stand between, where that is no quote."""
    fence: bool = False
    plain: bool = False
    """Whether the mark may be ordinary text, which goes out as such when it opens no call."""
    alone: bool = False
    """Whether the mark counts only at the beginning of a reply, and only for an offered tool."""
    thought: bool = False
    """What it encloses is reasoning."""
    hidden: bool = False
    """Whether the mark encloses text and is no part of it."""


def _tag(name: str) -> CallShape:
    return CallShape(opens=f"<{name}>", closes=(f"</{name}>",))


def _wrapper(opens: str, closes: str) -> CallShape:
    """Around calls that have marks of their own."""
    return CallShape(opens=opens, closes=(closes,))


LONGEST_HEAD = 256
_NAME = r"([\w.:/-]+)"
_ACTION_INPUT = re.compile(r"\s*([\w.:/-]+)[ \t]*\n\s*[Aa]ction [Ii]nput:(?:\s*(?=\{)|[ \t]*(?=[^\s{][^\n]*\n))")
_BRACKETED = re.compile(r"\s*([\w.:/-]+)\]:\s*(?=[{\"])")
_NAMED = re.compile(r"[\w.:/-]+(?:\"?/?>|\"/?\Z)")
_RECIPIENT = re.compile(r"\s*([\w.:/-]+)[^{]{0,80}?<\|message\|>\s*(?=\{)")
_HARMONY_ENDS = ("<|call|>", "<|end|>", "<|return|>")
_MISTRAL = re.compile(rf"{_NAME}(?:\[CALL_ID\][\w-]*)?(?:\[ARGS\]\s*(?=[{{\"])|\s*(?=\{{))")
_DEEPSEEK = re.compile(
    rf"function<｜tool[▁_]sep｜>\s*(?=<steptml:)|"
    rf"\s*(?:function<｜tool[▁_]sep｜>)?{_NAME}\s*(?:<｜tool[▁_]sep｜>\s*)?(?:```(?:json)?\s*)?(?=[{{\"]|<｜tool[▁_]call[▁_]end)"
)
_KIMI = re.compile(r"\s*(?:functions\.)?([\w.:/-]+?)(?::\d+)?\s*<\|tool_call_argument_begin\|>\s*(?=[{\"]|<\|)")
_LIST = re.compile(r"\s*(?:\[\s*(?:\{|[\w.]*\Z)|(?:\[\s*)?[\w.]+\()")
_CALL = re.compile(r"\s*call:")

_COMMON = (
    _tag("tool_call"),
    _tag("tool_calls"),
    _tag("function_call"),
    _tag("function_calls"),
    _tag("tool_use"),
    _tag("TOOLCALL"),
    _tag("longcat_tool_call"),
    _tag("tool_call:opensource"),
    _tag("tool_calls:opensource"),
    CallShape(opens="<|tool_call|>", closes=("</|tool_call|>", "<|/tool_call|>", "</|tool_call|}")),
    CallShape(opens="<|python_tag|>", closes=("<|eom_id|>", "<|eot_id|>")),
    CallShape(opens="<|python_start|>", closes=("<|python_end|>",), begun=_LIST),
    CallShape(opens="<|tool_call_start|>", closes=("<|tool_call_end|>",), begun=_LIST),
    CallShape(opens="<|START_ACTION|>", closes=("<|END_ACTION|>",)),
    CallShape(opens="<|action_start|>", closes=("<|action_end|>",)),
    CallShape(opens="<|plugin|>", closes=("<|action_end|>",)),
    CallShape(opens="<|tools_prefix|>", closes=("<|tools_suffix|>",), reader=read_by_key, begun=_LIST),
    CallShape(
        opens="<|tool_call>", closes=("<tool_call|>",), reader=delimited_reader('<|"|>'), begun=_CALL, strings='<|"|>'
    ),
    CallShape(
        opens="<start_function_call>",
        closes=("<end_function_call>",),
        reader=delimited_reader("<escape>"),
        begun=_CALL,
        strings="<escape>",
    ),
    CallShape(opens="<function=", closes=("</function>",), reader=read_function_element, begun=_NAMED),
    CallShape(opens='<invoke name="', closes=("</invoke>",), reader=read_invoke, begun=_NAMED),
    _wrapper("<minimax:tool_call>", "</minimax:tool_call>"),
    _wrapper("<seed:tool_call>", "</seed:tool_call>"),
    _wrapper("<｜DSML｜function_calls>", "</｜DSML｜function_calls>"),
    _wrapper("<｜DSML｜tool_calls>", "</｜DSML｜tool_calls>"),
    CallShape(opens='<｜DSML｜invoke name="', closes=("</｜DSML｜invoke>", '"/>'), reader=read_dsml, begun=_NAMED),
    _wrapper("<｜tool▁calls▁begin｜>", "<｜tool▁calls▁end｜>"),
    CallShape(opens="<｜tool▁call▁begin｜>", closes=("<｜tool▁call▁end｜>", "<｜end▁of▁sentence｜>"), head=_DEEPSEEK),
    _wrapper("<｜tool_calls_begin｜>", "<｜tool_calls_end｜>"),
    CallShape(opens="<｜tool_call_begin｜>", closes=("<｜tool_call_end｜>", "<｜tool_sep｜>"), head=_DEEPSEEK),
    CallShape(opens='<steptml:invoke name="', closes=("</steptml:invoke>",), reader=read_step, begun=_NAMED),
    _wrapper("<|tool_calls_section_begin|>", "<|tool_calls_section_end|>"),
    CallShape(opens="<|tool_call_begin|>", closes=("<|tool_call_end|>",), head=_KIMI),
    CallShape(opens="[TOOL_CALLS]", head=_MISTRAL),
    CallShape(opens="<|channel|>commentary to=", closes=_HARMONY_ENDS, head=_RECIPIENT),
    CallShape(opens="tool: [", where="line", head=_BRACKETED, plain=True),
)


def _thought(opens: str, closes: str) -> CallShape:
    return CallShape(opens=opens, closes=(closes,), where="line", thought=True)


_THOUGHTS = (
    _thought("<think>", "</think>"),
    _thought("<thinking>", "</thinking>"),
    _thought("<think:opensource>", "</think:opensource>"),
    _thought("<|START_THINKING|>", "<|END_THINKING|>"),
)
_DSML = ("<｜DSML｜function_calls>", "<｜DSML｜tool_calls>", '<｜DSML｜invoke name="')
_MARKS: dict[str, tuple[str, ...]] = {
    "hermes": ("<tool_call>", "<tool_calls>"),
    "xml": ("<tool_call>", "<tool_calls>", "<function_calls>", '<invoke name="'),
    "special_token": ("<|tool_call|>",),
    "llama": ("<function_call>", "<function_calls>", "<|python_tag|>", "<function="),
    "nemotron": ("<tool_call>", "<tool_calls>", "<function=", "<TOOLCALL>", "<seed:tool_call>"),
    "tool_use": ("<tool_use>", "<function_calls>", '<invoke name="'),
    "tool_prefix": ("tool: [",),
    "mistral": ("[TOOL_CALLS]",),
    "deepseek_v3": ("<｜tool▁calls▁begin｜>", "<｜tool▁call▁begin｜>"),
    "deepseek_v31": ("<｜tool▁calls▁begin｜>", "<｜tool▁call▁begin｜>"),
    "deepseek_v32": _DSML,
    "kimi_k2": ("<|tool_calls_section_begin|>", "<|tool_call_begin|>"),
    "llama4": ("<|python_start|>",),
    "lfm2": ("<|tool_call_start|>",),
    "gemma4": ("<|tool_call>",),
    "functiongemma": ("<start_function_call>",),
    "phi4": ("<|tool_call|>",),
    "internlm": ("<|action_start|>", "<|plugin|>"),
    "cohere": ("<|START_ACTION|>",),
    "step3": ("<｜tool_calls_begin｜>", "<｜tool_call_begin｜>", '<steptml:invoke name="'),
    "longcat": ("<longcat_tool_call>",),
    "apertus": ("<|tools_prefix|>",),
    "hunyuan": ("<tool_call>", "<tool_calls>", "<tool_call:opensource>", "<tool_calls:opensource>"),
    "glm": ("<tool_call>", "<tool_calls>"),
    "minimax": ("<minimax:tool_call>", "<tool_calls>", '<invoke name="'),
}
"""The marks of each format that are its own, among those that every format knows."""
_LETTERS = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_"


def _bare(lists: str, *, alone: bool) -> tuple[CallShape, ...]:
    return tuple(
        CallShape(
            opens=opens,
            where="line",
            first=first,
            reader=read_bare_calls,
            fence=opens == "```",
            plain=True,
            alone=alone,
        )
        for opens, first in (("{", "\"'"), ("[", lists), ("```", ""))
    )


def _hidden(*marks: str) -> tuple[CallShape, ...]:
    return tuple(CallShape(opens=mark, hidden=True) for mark in marks)


_ALONE = _bare("{", alone=True)
_RAW = _bare("{", alone=False)
_PYTHON = _bare(_LETTERS + "{", alone=False)
_REACT = tuple(
    CallShape(opens=word, where="line", head=_ACTION_INPUT, plain=True) for word in ("action:", "Action:", "ACTION:")
)
_OWN: dict[str, tuple[CallShape, ...]] = {
    "json": _RAW,
    "llama": _RAW,
    "pythonic": _PYTHON,
    "llama4": _PYTHON,
    "react": (*_ALONE, *_REACT),
    "mistral": (*_ALONE, _thought("[THINK]", "[/THINK]")),
    "gemma4": (*_ALONE, _thought("<|channel>thought\n", "<channel|>")),
    "phi4": (*_ALONE, CallShape(opens="functools", first="[", reader=read_bare_calls, plain=True)),
    "cohere": (
        *_ALONE,
        *_REACT,
        *_hidden("<|START_RESPONSE|>", "<|END_RESPONSE|>", "<|START_TEXT|>", "<|END_TEXT|>"),
    ),
    "apertus": (*_ALONE, *_hidden("<|inner_prefix|>", "<|inner_suffix|>")),
}

CODE = CallShape(opens="```", closes=("```",), where="line", fence=True, plain=True)
"""A fence that says it holds a call."""
CODE_NAMES = frozenset({"tool_code", "tool_call", "tool_calls", "function_call"})
CLOSES = tuple(
    sorted({mark for shape in (*_COMMON, CODE) for mark in shape.closes if mark not in ("```", '"/>')}, key=len)
)[::-1]
"""Every closing mark, since models mix them up. But `"/>` stands in ordinary text, so it closes only its own
opening."""


def shapes_of_format(format: str) -> tuple[CallShape, ...]:
    """What to look for when a model was told to write this format. No mark hides a longer one."""
    return (*_COMMON, *_THOUGHTS, *_OWN.get(format, _ALONE))


def own_opening_marks(format: str) -> tuple[str, ...]:
    """The marks that open a call of this format and are found nowhere else."""
    return _MARKS.get(format, ())


def foreign_opening_marks(format: str) -> frozenset[str]:
    """The marks of calls that belong to other formats."""
    return frozenset(row.opens for row in _COMMON).difference(own_opening_marks(format))
