"""A server that carries only text, and models that write their calls in it: one function per format."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tests.wires.wire_dialogue import Event, ScriptedReply, UnderstoodRequest, WireCall, WireHttpRequest, as_json
from tests.wires.writers import chat

Format = Callable[[ScriptedReply], str]


def hear(asked: WireHttpRequest) -> UnderstoodRequest:
    """As Chat Completions, but nothing may speak of tools except the text."""
    body = asked.body
    assert not {"tools", "tool_choice", "parallel_tool_calls"} & body.keys(), "this server knows no tools"
    assert all(message["role"] in ("system", "user", "assistant") for message in body["messages"])
    assert all(isinstance(message["content"], str) for message in body["messages"])
    return chat.hear(asked)


def writer(format: str) -> Callable[[ScriptedReply, bool], list[Event]]:
    to_text = FORMATS[format]
    return lambda said, stream: chat.write(ScriptedReply(to_text(said)), stream)


def _each(write: Callable[[WireCall], str]) -> Format:
    """What was said, and every call on lines of its own."""
    return lambda said: "\n".join([*([said.text] if said.text else []), *map(write, said.calls)])


def _object(call: WireCall, arguments: str = "arguments") -> str:
    return as_json({"name": call.name, arguments: call.arguments})


def _nemotron(call: WireCall) -> str:
    lines = [
        f"<parameter={key}>\n{value if isinstance(value, str) else as_json(value)}\n</parameter>"
        for key, value in call.arguments.items()
    ]
    return "\n".join(["<tool_call>", f"<function={call.name}>", *lines, "</function>", "</tool_call>"])


def _python(call: WireCall) -> str:
    return f"{call.name}({', '.join(f'{key}={value!r}' for key, value in call.arguments.items())})"


def _pythonic(said: ScriptedReply) -> str:
    """One call in a fence, as Gemma writes it; several in a list, as Llama does."""
    written = [f"```tool_code\n{_python(call)}\n```" for call in said.calls]
    if len(written) > 1:
        written = [f"[{', '.join(map(_python, said.calls))}]"]
    return "\n".join([*([said.text] if said.text else []), *written])


def _react(call: WireCall) -> str:
    return f"Action: {call.name}\nAction Input: {as_json(call.arguments)}\n"


def _action(call: WireCall) -> str:
    return f"action: {as_json({'tool': call.name, 'arguments': call.arguments})}"


def _harmony(said: ScriptedReply) -> str:
    """Thoughts, what is said before calls, the calls, and the last word, each on its channel."""
    messages = ["<|channel|>analysis<|message|>Let me think.<|end|>"]
    if said.text:
        channel, end = ("commentary", "<|end|>") if said.calls else ("final", "<|return|>")
        messages.append(f"<|channel|>{channel}<|message|>{said.text}{end}")
    messages += [
        f"<|channel|>commentary to=functions.{call.name} <|constrain|>json<|message|>{as_json(call.arguments)}<|call|>"
        for call in said.calls
    ]
    return "<|start|>assistant".join(messages)


def _in(opens: str, closes: str, arguments: str = "arguments") -> Format:
    return _each(lambda call: f"{opens}{_object(call, arguments)}{closes}")


FORMATS: dict[str, Any] = {
    "hermes": _in("<tool_call>\n", "\n</tool_call>"),
    "llama": _in("<function_call>", "</function_call>", "parameters"),
    "xml": _in("<tool_call>", "</tool_call>"),
    "special_token": _in("<|tool_call|>", "</|tool_call|>"),
    "tool_use": _in("<tool_use>\n", "\n</tool_use>"),
    "json": _each(_object),
    "tool_prefix": _each(lambda call: f"tool: [{call.name}]: {as_json(call.arguments)}"),
    "pythonic": _pythonic,
    "harmony": _harmony,
    "nemotron": _each(_nemotron),
    "react": _each(_react),
    "react-action": _each(_action),
}
