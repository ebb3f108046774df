"""Every format's calls are read from what models write in it, and none of the markup is left in the text."""

from __future__ import annotations

import json

import pytest

from handrail.core.errors import ProtocolError
from handrail.core.events import CallRequested, Notice, ReasoningDelta, ReplyFinished, TextDelta
from tests.models.prompted.text_codec import calls_of, events, read, text_of

LISBON = ("get_weather", {"location": "Lisbon"})
CALL = '{"name": "get_weather", "arguments": {"location": "Lisbon"}}'


def understood(format: str, reply: str) -> tuple[str, list[tuple[str, object]]]:
    text, calls = read(format, reply)
    return text, [(name, json.loads(arguments)) for name, arguments in calls]


@pytest.mark.requirement("hearthnet.backends.compatible")
@pytest.mark.parametrize(
    ("format", "reply"),
    [
        ("hermes", f"<tool_call>\n{CALL}\n</tool_call>"),
        ("qwen", f"<tool_call>{CALL}</tool_call>"),
        ("xml", "<tool_call>get_weather\n<arg_key>location</arg_key>\n<arg_value>Lisbon</arg_value>\n</tool_call>"),
        (
            "xml",
            '<function_calls>\n<invoke name="get_weather">\n<parameter name="location">Lisbon</parameter>\n'
            "</invoke>\n</function_calls>",
        ),
        ("special_token", f"<|tool_call|>{CALL}</|tool_call|>"),
        ("llama", f"<function_call>{CALL}</function_call>"),
        ("llama", '<|python_tag|>{"name": "get_weather", "parameters": {"location": "Lisbon"}}<|eom_id|>'),
        ("llama", '<|python_tag|>get_weather(location="Lisbon")'),
        ("llama", '{"type": "function", "name": "get_weather", "parameters": {"location": "Lisbon"}}'),
        ("llama", '<function=get_weather>{"location": "Lisbon"}</function>'),
        ("pythonic", '```tool_code\nget_weather(location="Lisbon")\n```'),
        ("pythonic", '```tool_code\nprint(get_weather("Lisbon"))\n```'),
        ("pythonic", f"```tool_code\n{CALL}\n```"),
        ("pythonic", "[get_weather(location='Lisbon')]"),
        ("json", CALL),
        ("json", f"[{CALL}]"),
        ("json", f"```json\n{CALL}\n```"),
        ("json", f'{{"tool_calls": [{{"id": "1", "type": "function", "function": {CALL}}}]}}'),
        (
            "harmony",
            '<|channel|>commentary to=functions.get_weather <|constrain|>json<|message|>{"location": "Lisbon"}<|call|>',
        ),
        (
            "harmony",
            "<|start|>assistant to=functions.get_weather<|channel|>commentary json<|message|>"
            '{"location": "Lisbon"}<|call|>',
        ),
        (
            "nemotron",
            "<tool_call>\n<function=get_weather>\n<parameter=location>\nLisbon\n</parameter>\n</function>\n"
            "</tool_call>",
        ),
        ("nemotron", f"<TOOLCALL>[{CALL}]</TOOLCALL>"),
        ("react", 'action: {"tool": "get_weather", "location": "Lisbon"}'),
        ("react", 'Action: get_weather\nAction Input: {"location": "Lisbon"}'),
        ("react", "Action: get_weather\nAction Input: {'location': 'Lisbon'}\n"),
        ("tool_prefix", 'tool: [get_weather]: {"location": "Lisbon"}'),
        ("openai", 'tool: [get_weather]: {"location": "Lisbon"}'),
    ],
)
def test_a_call_is_read_in_the_format_that_was_asked_for(format: str, reply: str) -> None:
    assert understood(format, reply) == ("", [LISBON])
    text, calls = understood(format, f"Let me see.\n{reply}")
    assert (text.rstrip(), calls) == ("Let me see.", [LISBON])


@pytest.mark.requirement("abstractllm.anthropic")
def test_tool_use_text_is_read_as_a_call_and_removed_from_the_content() -> None:
    reply = 'I will look.\n<tool_use>{"name": "get_weather", "input": {"location": "Lisbon"}}</tool_use>\nOne moment.'

    assert understood("tool_use", reply) == ("I will look.\nOne moment.", [LISBON])


@pytest.mark.parametrize("format", ["hermes", "json", "react", "tool_use", "pythonic"])
@pytest.mark.parametrize(
    "reply",
    [
        f"<tool_call>{CALL}</tool_call>",
        f"<|tool_call|>{CALL}</|tool_call|>",
        f"<function_call>{CALL}</function_call>",
        f"<tool_use>{CALL}</tool_use>",
        '<|channel|>commentary to=functions.get_weather <|constrain|>json<|message|>{"location": "Lisbon"}<|call|>',
        CALL,
        f"```json\n{CALL}\n```",
    ],
)
def test_a_model_that_strays_into_another_format_is_understood(format: str, reply: str) -> None:
    assert understood(format, reply) == ("", [LISBON])


@pytest.mark.parametrize(
    "reply",
    [
        f"<tool_call><tool_call>{CALL}</tool_call></tool_call>",
        f"<|tool_call|>{CALL}</|tool_call|}}",
        f"<|tool_call|>{CALL}<|tool_call|>",
        f"<tool_call>{CALL}</function_call>",
        f"<tool_call>{CALL}",
        f"<tool_call>{CALL[:-1]}</tool_call>",
        f"<tool_call>{CALL[:-2]}",
        f"<tool_call>{CALL}}}</tool_call>",
        f"```xml\n<tool_call>{CALL}</tool_call>\n```",
        f"<tool_call>\n```json\n{CALL}\n```\n</tool_call>",
        "<tool_call>{'name': 'get_weather', 'arguments': {'location': 'Lisbon'}}</tool_call>",
        '<tool_call>{"tool": "get_weather", "params": {"location": "Lisbon",},}</tool_call>',
        '<tool_call>{"command": "get_weather", "input": {"location": "Lisbon"}}</tool_call>',
        '<tool_call>{"function": {"name": "get_weather", "arguments": {"location": "Lisbon"}}}</tool_call>',
        '<tool_call>{"name": "get_weather", "arguments": "{\\"location\\": \\"Lisbon\\"}"}</tool_call>',
        '<tool_call>{"action": "functions.get_weather", "parameters": {"location": "Lisbon"}}</tool_call>',
        '<tool_call>{"name": "get_weather", "location": "Lisbon"}</tool_call>',
        '<tool_call>get_weather {"location": "Lisbon"}</tool_call>',
        f"<tool_call>{CALL}</tool_call><tool_call>{CALL}</tool_call>",
    ],
)
def test_a_call_that_is_badly_written_but_plain_in_meaning_is_read(reply: str) -> None:
    assert understood("hermes", reply) == ("", [LISBON])


def test_raw_line_breaks_in_a_string_are_kept() -> None:
    _, calls = understood("hermes", '<tool_call>{"name": "search", "arguments": {"q": "a\n\tb"}}</tool_call>')

    assert calls == [("search", {"q": "a\n\tb"})]


def test_python_literals_are_read_as_values() -> None:
    _, calls = understood(
        "pythonic", "```tool_code\nf(a=True, b=None, c=[1, 2.5, (3,)], d={'k': \"v\"}, e='it\\'s')\ng()\n```"
    )

    assert calls == [("f", {"a": True, "b": None, "c": [1, 2.5, [3]], "d": {"k": "v"}, "e": "it's"}), ("g", {})]


@pytest.mark.parametrize(
    "code", ["__import__('os').system('x')", "f(a=1+1)", "f(a=g())", "f(a=[x for x in y])", "f(**a)"]
)
def test_code_that_is_no_plain_call_is_not_evaluated_and_not_a_call(code: str) -> None:
    text, calls = read("pythonic", f"```tool_code\n{code}\n```")

    assert calls == []
    assert code in text


def test_arguments_that_are_json_are_given_on_as_they_were_written() -> None:
    _, calls = read(
        "hermes", '<tool_call>{"name": "f", "arguments": {"a":1.50,  "a": 12345678901234567890}}</tool_call>'
    )

    assert calls == [("f", '{"a":1.50,  "a": 12345678901234567890}')]


def test_several_calls_come_in_their_order_whatever_separates_them() -> None:
    one, two = '{"name": "search", "arguments": {"q": "a"}}', '{"name": "search", "arguments": {"q": "b"}}'
    both = [("search", {"q": "a"}), ("search", {"q": "b"})]

    assert understood("hermes", f"<tool_call>{one}</tool_call>\n<tool_call>{two}</tool_call>") == ("", both)
    assert understood("hermes", f"<tool_call>{one}\n{two}</tool_call>") == ("", both)
    assert understood("hermes", f"<tool_call>[{one}, {two}]</tool_call>") == ("", both)
    assert understood("llama", f"<|python_tag|>{one}; {two}") == ("", both)
    assert understood("json", f"{one}\n{two}") == ("", both)
    assert understood("pythonic", '[search(q="a"), search(q="b")]') == ("", both)


def test_the_same_call_twice_is_one() -> None:
    one, two = '{"name": "f", "arguments": {"a": 1, "b": 2}}', '{"name": "f", "arguments": {"b":2, "a":1}}'

    assert len(read("hermes", f"<tool_call>{one}</tool_call><tool_call>{two}</tool_call>")[1]) == 1


def test_a_closing_mark_inside_an_argument_closes_nothing() -> None:
    call = '{"name": "search", "arguments": {"q": "</tool_call> and <tool_call>"}}'

    assert understood("hermes", f"<tool_call>{call}</tool_call>done") == (
        "done",
        [("search", {"q": "</tool_call> and <tool_call>"})],
    )


def test_an_unknown_tool_is_given_on_for_the_executor_to_answer() -> None:
    assert understood("hermes", '<tool_call>{"name": "nope", "arguments": {}}</tool_call>') == ("", [("nope", {})])


def test_arguments_that_cannot_be_read_are_given_on_as_they_are_for_the_executor_to_refuse() -> None:
    text, calls = read("hermes", '<tool_call>{"name": "search", "arguments": {"q": "a" "b"}}</tool_call> Well.')

    assert (text, calls) == (" Well.", [("search", '{"q": "a" "b"}}')])


@pytest.mark.parametrize(
    "reply",
    [
        "Write <tool_call>…</tool_call> to call.",
        'Here is the record:\n{"name": "Bob", "age": 3}',
        '{"name": "Bob", "age": 3}',
        "```python\nprint(1)\n```\nIt prints 1.",
        "Action: none is needed, since it's fine.",
        "tool: [hammer] is what you need",
        "[1] A footnote, isn't it?\n[text](http://x)",
        "2 < 3 and `x` <b>bold</b> {curly}",
    ],
)
@pytest.mark.parametrize("format", ["hermes", "json", "react", "pythonic", "nemotron", "harmony", "tool_prefix"])
def test_ordinary_text_stays_as_it_is(format: str, reply: str) -> None:
    assert read(format, reply) == (reply, [])


def test_markup_that_is_no_call_in_the_middle_does_not_hide_a_call_after_it() -> None:
    reply = f"As in <tool_call>{{it's}}</tool_call>, so:\n<tool_call>{CALL}</tool_call>"

    text, calls = read("hermes", reply)

    assert text == "As in <tool_call>{it's}</tool_call>, so:"
    assert [name for name, _ in calls] == ["get_weather"]


@pytest.mark.parametrize(
    "reply",
    [
        '<tool_call>{"name": "search", "arguments": {"q": "half a sen',
        '<tool_call>{"name": "search", "arguments": {"q":',
        '<tool_call>{"name": "search", "arguments": {"n": 12',
    ],
)
def test_half_a_call_is_an_error_and_after_the_token_limit_it_is_dropped_with_a_notice(reply: str) -> None:
    with pytest.raises(ProtocolError):
        events("hermes", [reply])

    found = events("hermes", ["So: ", reply], cut=True)

    assert text_of(found) + "|" == "So: |"
    assert calls_of(found) == []
    assert isinstance(found[-2], Notice)
    assert found[-1] == ReplyFinished(stop="max_tokens")


def test_nothing_is_completed_after_the_token_limit() -> None:
    assert calls_of(events("hermes", [f"<tool_call>{CALL[:-1]}"], cut=True)) == []
    assert calls_of(events("hermes", [f"<tool_call>{CALL}"], cut=True)) != []


def test_a_call_is_given_out_as_soon_as_its_last_bracket_is_there() -> None:
    found = events("hermes", ["<tool_call>", CALL, "</tool_call>", "x"])

    assert [type(event) for event in found[-3:]] == [CallRequested, TextDelta, ReplyFinished]


def test_harmony_tells_reasoning_from_text() -> None:
    reply = "<|channel|>analysis<|message|>Hm.<|end|><|start|>assistant<|channel|>final<|message|>Yes.<|return|>"

    assert events("harmony", [reply]) == [
        ReasoningDelta(text="Hm."),
        TextDelta(text="Yes."),
        ReplyFinished(stop="end"),
    ]


def test_a_harmony_call_that_breaks_off_is_an_error() -> None:
    with pytest.raises(ProtocolError):
        events("harmony", ['<|channel|>commentary to=functions.f<|message|>{"a": "b'])
    with pytest.raises(ProtocolError):
        events("harmony", ["<|channel|>commentary to=functions.f"])


def test_a_react_action_with_plain_input_gives_it_to_the_only_argument() -> None:
    assert understood("react", "Action: search\nAction Input: rain in May\n") == (
        "",
        [("search", {"q": "rain in May"})],
    )
    assert understood("react", "Action: search\nAction Input: rain in May") == ("", [("search", {"q": "rain in May"})])
