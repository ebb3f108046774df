"""How each format is written: one row each. What is read is wider; see `call_shapes`.

A row's frame is the text around a call's name and its arguments as JSON. It is used
to render past calls, to tell the model what to write, and to make grammars.
"""

from __future__ import annotations

import json
import re
from typing import Any, Literal

from msgspec import Struct

from handrail.core.errors import UsageError

_NOT_IN_NAMES = re.compile(r"[^\w.:/-]")


class CallFrame(Struct, frozen=True):
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


class ParameterFrame(Struct, frozen=True):
    """`opens` NAME `named`, for each argument `key` KEY `text` VALUE `ends`, `closes`."""

    opens: str
    named: str
    key: str
    text: str
    ends: str
    closes: str
    json: str = ""
    """Replaces `text` where the value is JSON, in formats that say so."""


class CallFormat(Struct, frozen=True, kw_only=True):
    name: str
    frame: CallFrame
    parameters: ParameterFrame | None = None
    """The way to write `parameters`."""
    code: tuple[str, str] | tuple[()] = ()
    """What stands around calls in `python`."""
    strings: str = ""
    """What stands around each string in `strings`, whose calls are the frame's without quotes."""
    tools: Literal["lines", "json"] = "lines"
    """The way to list the tools: a line per argument, or the schemas, where models were trained on them."""
    answers: Literal["tags", "observation", "harmony", "words"] = "words"
    """The way to give results."""
    tokens: bool = False
    """Its marks are tokens of the model, which some servers leave out of the text unless they are told not to."""
    stop: tuple[str, ...] = ()
    """The text at which the model must stop, so that it does not write the results itself."""

    @property
    def calls(self) -> Literal["json", "parameters", "python", "strings"]:
        """What the model is told to write: the frame, or what cannot say every call; those go in the frame."""
        if self.parameters is not None:
            return "parameters"
        return "python" if self.code else "strings" if self.strings else "json"


def _trained(name: str, frame: CallFrame, **known: Any) -> CallFormat:
    """A format whose marks are tokens of the models that were trained on it."""
    return CallFormat(name=name, frame=frame, tokens=True, tools="json", **known)


def _tagged(opens: str, closes: str) -> CallFrame:
    return CallFrame(opens + '\n{"name": "', '", "arguments": ', "}\n" + closes)


def _invoked(prefix: str, block: str) -> CallFrame:
    """JSON in place of elements, which readers of these formats take too."""
    return CallFrame(f'<{block}>\n<{prefix}invoke name="', '">\n', f"\n</{prefix}invoke>\n</{block}>", quoted=False)


def _elements(opens: str, prefix: str, closes: str, text: str = "", json: str = "") -> ParameterFrame:
    """Elements `invoke` and `parameter` whose names are attributes; `text` and `json` are attributes of a value."""
    return ParameterFrame(
        f'{opens}<{prefix}invoke name="',
        '">\n',
        f'<{prefix}parameter name="',
        f'"{text}>',
        f"</{prefix}parameter>\n",
        f"</{prefix}invoke>{closes}",
        json and f'"{json}>',
    )


_HERMES = _tagged("<tool_call>", "</tool_call>")
_HUNYUAN = ("<tool_calls>\n<tool_call>", "</tool_call>\n</tool_calls>")
_STEP = ("<｜tool_calls_begin｜><｜tool_call_begin｜>function<｜tool_sep｜>", "<｜tool_call_end｜><｜tool_calls_end｜>")
_DEEPSEEK = ("<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>", "<｜tool▁call▁end｜><｜tool▁calls▁end｜>")

_ROWS = (
    CallFormat(name="hermes", frame=_HERMES, tools="json", answers="tags"),
    CallFormat(name="xml", frame=_HERMES, answers="tags"),
    CallFormat(name="special_token", frame=_tagged("<|tool_call|>", "</|tool_call|>"), answers="tags"),
    CallFormat(name="llama", frame=_tagged("<function_call>", "</function_call>"), tools="json"),
    CallFormat(name="json", frame=CallFrame('{"name": "', '", "arguments": ', "}")),
    CallFormat(name="pythonic", frame=_tagged("```tool_code", "```"), code=("```tool_code\n", "\n```")),
    CallFormat(
        name="harmony",
        frame=CallFrame(
            "<|channel|>commentary to=functions.", " <|constrain|>json<|message|>", "<|call|>", quoted=False
        ),
        tokens=True,
        answers="harmony",
    ),
    CallFormat(
        name="nemotron",
        frame=_HERMES,
        parameters=ParameterFrame(
            "<tool_call>\n<function=", ">\n", "<parameter=", ">\n", "\n</parameter>\n", "</function>\n</tool_call>"
        ),
        tools="json",
        answers="tags",
    ),
    CallFormat(
        name="react",
        frame=CallFrame('action: {"tool": "', '", "arguments": ', "}"),
        answers="observation",
        stop=("\nObservation",),
    ),
    CallFormat(name="tool_use", frame=_tagged("<tool_use>", "</tool_use>"), answers="tags"),
    CallFormat(name="tool_prefix", frame=CallFrame("tool: [", "]: ", "", quoted=False)),
    _trained("mistral", CallFrame("[TOOL_CALLS]", "[ARGS]", "", quoted=False)),
    _trained(
        "deepseek_v3",
        CallFrame(f"{_DEEPSEEK[0]}function<｜tool▁sep｜>", "\n```json\n", f"\n```{_DEEPSEEK[1]}", quoted=False),
    ),
    _trained("deepseek_v31", CallFrame(_DEEPSEEK[0], "<｜tool▁sep｜>", _DEEPSEEK[1], quoted=False)),
    _trained(
        "deepseek_v32",
        _invoked("｜DSML｜", "｜DSML｜function_calls"),
        parameters=_elements(
            "<｜DSML｜function_calls>\n", "｜DSML｜", "\n</｜DSML｜function_calls>", ' string="true"', ' string="false"'
        ),
    ),
    _trained(
        "kimi_k2",
        CallFrame(
            "<|tool_calls_section_begin|><|tool_call_begin|>functions.",
            ":0<|tool_call_argument_begin|>",
            "<|tool_call_end|><|tool_calls_section_end|>",
            quoted=False,
        ),
    ),
    _trained(
        "llama4", CallFrame('<|python_start|>[{"name": "', '", "arguments": ', "}]<|python_end|>"), code=("[", "]")
    ),
    _trained(
        "lfm2",
        CallFrame('<|tool_call_start|>[{"name": "', '", "arguments": ', "}]<|tool_call_end|>"),
        code=("<|tool_call_start|>[", "]<|tool_call_end|>"),
    ),
    _trained("gemma4", CallFrame("<|tool_call>call:", "", "<tool_call|>", quoted=False), strings='<|"|>'),
    _trained(
        "functiongemma",
        CallFrame("<start_function_call>call:", "", "<end_function_call>", quoted=False),
        strings="<escape>",
    ),
    CallFormat(name="phi4", frame=CallFrame('functools[{"name": "', '", "arguments": ', "}]"), tools="json"),
    _trained("internlm", CallFrame('<|action_start|> <|plugin|>\n{"name": "', '", "parameters": ', "}<|action_end|>")),
    _trained(
        "cohere",
        CallFrame(
            '<|START_ACTION|>[\n    {"tool_call_id": "0", "tool_name": "', '", "parameters": ', "}\n]<|END_ACTION|>"
        ),
    ),
    _trained(
        "step3",
        CallFrame(f'{_STEP[0]}<steptml:invoke name="', '">\n', f"\n</steptml:invoke>{_STEP[1]}", quoted=False),
        parameters=_elements(_STEP[0], "steptml:", _STEP[1]),
    ),
    _trained("longcat", _tagged("<longcat_tool_call>", "</longcat_tool_call>")),
    _trained("apertus", CallFrame('<|tools_prefix|>[{"', '": ', "}]<|tools_suffix|>")),
    _trained(
        "hunyuan",
        CallFrame(_HUNYUAN[0], "<tool_sep>\n", f"\n{_HUNYUAN[1]}", quoted=False),
        parameters=ParameterFrame(
            _HUNYUAN[0], "<tool_sep>\n", "<arg_key>", "</arg_key>\n<arg_value>", "</arg_value>\n", _HUNYUAN[1]
        ),
    ),
    _trained(
        "glm",
        CallFrame("<tool_call>", "\n", "\n</tool_call>", quoted=False),
        parameters=ParameterFrame(
            "<tool_call>", "\n", "<arg_key>", "</arg_key>\n<arg_value>", "</arg_value>\n", "</tool_call>"
        ),
    ),
    _trained(
        "minimax",
        _invoked("", "minimax:tool_call"),
        parameters=_elements("<minimax:tool_call>\n", "", "\n</minimax:tool_call>"),
    ),
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
    "qwen3_coder": "nemotron",
    "command_r": "cohere",
    "deepseek": "deepseek_v32",
    "deepseek_v4": "deepseek_v32",
    "glm45": "glm",
    "glm47": "glm",
    "hy_v3": "hunyuan",
    "kimi": "kimi_k2",
    "llama4_pythonic": "llama4",
    "minimax_m2": "minimax",
    "phi4_mini_json": "phi4",
}


def format_named(name: str) -> CallFormat:
    """A format by its name or one of its other names.

    Raises:
        UsageError: There is none of that name.
    """
    found = FORMATS.get(_ALIASES.get(name, name))
    if found is None:
        raise UsageError(f"no text format {name!r} for tool calls; the formats are: {', '.join(sorted(FORMATS))}")
    return found
