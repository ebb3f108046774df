"""Every code block of abstractllm-tool-system.md, run as it stands over `handrail.compat.abstractllm`.

What the document leaves out is given: its standard imports, and services that answer from a script.
"""

from __future__ import annotations

import concurrent.futures
import inspect
import json
import re
import typing
from functools import partial
from types import SimpleNamespace
from typing import Any

import pytest

from handrail.compat import abstractllm
from handrail.compat.abstractllm import ToolCall, ToolCallRequest, ToolDefinition
from handrail.sessions.llm import LLM
from handrail.testing.model import ScriptedModel, call, text
from tests.seeds.document_samples import Coverage, names_of, not_offered, run
from tests.sessions.wire_replies import CALLS, OneReply

DOCUMENT = Coverage("abstractllm", listed={})
TYPING = {name: getattr(typing, name) for name in ("Any", "Callable", "Dict", "List", "Optional", "Union")}
GIVEN = {**TYPING, **names_of(abstractllm), "inspect": inspect, "json": json, "re": re}


def get_weather(location: str, unit: str = "celsius") -> str:
    """Get the current weather for a location."""
    return f"The weather in {location} is sunny and 25°{unit}"


def get_time(location: str) -> str:
    """Get the time at a location."""
    return f"It is noon in {location}"


def test_every_block_of_the_document_is_run() -> None:
    assert len(DOCUMENT.blocks) == 12
    assert DOCUMENT.problems() == []


@DOCUMENT.runs(1, 2, 3)
@pytest.mark.parametrize("number", [1, 2, 3])
@pytest.mark.requirement("abstractllm.from-function")
async def test_the_classes_of_the_document_are_offered_with_their_fields_and_methods(number: int) -> None:
    """The listings run, and every name in them is in our module. They are AbstractLLM's own classes."""
    from pydantic import BaseModel, Field

    code = DOCUMENT.code(number)
    defined = await run(code, {**GIVEN, "BaseModel": BaseModel, "Field": Field})

    assert not_offered(code, abstractllm) == []
    assert any(isinstance(each, type) and issubclass(each, BaseModel) for each in defined.values())


@DOCUMENT.runs(4)
@pytest.mark.requirement("abstractllm.conversion")
async def test_the_documents_conversion_and_ours_agree() -> None:
    theirs = (await run(DOCUMENT.code(4), GIVEN))["convert_to_openai_tools"]
    definition = ToolDefinition.from_function(get_weather)
    native = {"type": "function", "function": {"name": "native", "parameters": {"type": "object"}}}

    for tools in ([definition], [get_weather], [native, definition, get_time]):
        assert abstractllm.convert_to_openai_tools(tools) == theirs(tools)


@DOCUMENT.runs(5)
@pytest.mark.requirement("abstractllm.execute-tools")
async def test_the_documents_execution_and_ours_agree() -> None:
    theirs = (await run(DOCUMENT.code(5), GIVEN))["execute_tools"]

    def calls() -> list[ToolCall]:
        return [ToolCall("a", "get_time", {"location": "Oslo"}), ToolCall("b", "missing", {})]

    ours, expected = calls(), calls()
    assert abstractllm.execute_tools(ours, {"get_time": get_time}) == theirs(expected, {"get_time": get_time})
    assert [each.result for each in ours] == [each.result for each in expected]


@DOCUMENT.runs(6)
@pytest.mark.requirement("abstractllm.request")
async def test_the_documents_reading_of_an_openai_reply_gives_a_request_that_runs() -> None:
    defined = await run(DOCUMENT.code(6), GIVEN)
    function = SimpleNamespace(name="get_weather", arguments='{"location": "Rome"}')
    message = SimpleNamespace(content=None, tool_calls=[SimpleNamespace(id="c1", function=function)])
    response = SimpleNamespace(choices=[SimpleNamespace(message=message)])

    tools = defined["_prepare_tools"](None, [get_weather])
    request = defined["_handle_tool_calls"](None, response)

    assert tools == abstractllm.convert_to_openai_tools([get_weather])
    assert isinstance(request, ToolCallRequest)
    request.execute_tool_calls({"get_weather": get_weather})
    assert request.tool_calls[0].result == "The weather in Rome is sunny and 25°celsius"


@DOCUMENT.runs(7)
@pytest.mark.requirement("abstractllm.request")
async def test_the_documents_reading_of_an_anthropic_reply_gives_a_request_that_runs() -> None:
    defined = await run(DOCUMENT.code(7), GIVEN)
    said = 'Let me look. <tool_use>{"name": "get_time", "input": {"location": "Rome"}}</tool_use>'
    response = SimpleNamespace(content=[SimpleNamespace(text=said)])

    tools = defined["_prepare_tools"](None, [get_time])
    request = defined["_handle_tool_use"](None, response)

    assert tools == abstractllm.convert_to_anthropic_tools([get_time])
    assert isinstance(request, ToolCallRequest)
    assert request.content == "Let me look. "
    request.execute_tool_calls({"get_time": get_time})
    assert [(each.id, each.result) for each in request.tool_calls] == [("call_0", "It is noon in Rome")]


@DOCUMENT.runs(8)
@pytest.mark.requirement("abstractllm.types")
async def test_the_documents_schema_of_a_function_and_ours_agree() -> None:
    theirs = (await run(DOCUMENT.code(8), {**GIVEN}))["generate_schema_from_function"]

    # `from __future__ import annotations` makes text of annotations here; the document's code reads them as types.
    def convert(amount: Any, currency: Any = "EUR") -> Any: ...

    convert.__annotations__ = {"amount": float, "currency": str}
    ours = abstractllm.generate_schema_from_function(convert)
    plain = {name: {"type": schema["type"]} for name, schema in ours["properties"].items()}

    assert {**theirs(convert)} == {"type": "object", "properties": plain, "required": ours["required"]}


def service(kind: str) -> Any:
    """`create_llm`, with a service that always asks for the weather in Paris."""
    return partial(abstractllm.create_llm, key="k", transport=OneReply(CALLS[kind]), stream=False)


@DOCUMENT.runs(9)
@pytest.mark.requirement("abstractllm.create-llm")
async def test_using_functions_as_tools() -> None:
    ran = await run(DOCUMENT.code(9), {**GIVEN, "create_llm": service("chat")})

    response = ran["response"]
    assert isinstance(response, ToolCallRequest)
    response.execute_tool_calls({"get_weather": ran["get_weather"]})
    assert response.tool_calls[0].result == "The weather in Paris is sunny and 25°celsius"


@DOCUMENT.runs(10)
@pytest.mark.requirement("abstractllm.create-llm")
async def test_using_a_tool_definition() -> None:
    ran = await run(DOCUMENT.code(10), {**GIVEN, "create_llm": service("anthropic")})

    calls = [(each.id, each.name, each.arguments) for each in ran["response"].tool_calls]
    assert calls == [("c1", "get_weather", {"location": "Paris"})]


@DOCUMENT.runs(11)
@pytest.mark.requirement("abstractllm.session")
async def test_handling_tool_calls_in_sessions() -> None:
    asked = [call("get_weather", location="Paris"), call("get_time", location="Paris")]
    with LLM(ScriptedModel(asked, [text("Sunny, 25°C, noon.")])) as llm:
        given = {**GIVEN, "llm": llm, "get_weather": get_weather, "get_time": get_time}
        ran = await run(DOCUMENT.code(11), given)
        ran["session"].close()

    assert ran["response"].text == "Sunny, 25°C, noon."
    assert [result.content for result in ran["response"].results] == [
        "The weather in Paris is sunny and 25°celsius",
        "It is noon in Paris",
    ]


@DOCUMENT.runs(12)
@pytest.mark.requirement("abstractllm.output-limit")
async def test_the_documents_secure_execution_and_ours_agree() -> None:
    given = {**GIVEN, "ThreadPoolExecutor": concurrent.futures.ThreadPoolExecutor}
    theirs = (await run(DOCUMENT.code(12), given))["execute_tool_securely"]

    for execute in (theirs, abstractllm.execute_tool_securely):
        assert execute(get_time, {"location": "Oslo"}) == "It is noon in Oslo"
        assert len(execute(lambda times: "x" * times, {"times": 20_000}, max_output_size=1000)) < 1100
        with pytest.raises(abstractllm.ToolExecutionError):
            execute(get_time, {"location": 7})
