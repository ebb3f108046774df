"""Every code block of converser-invocables.md over `handrail.compat.converser`, run as it stands or listed with why.

What the document leaves out is given: its standard imports, a model that answers from a script, the functions that
its TOML files find by name, and an MCP server.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, Protocol

import pytest

from handrail.compat import converser
from handrail.compat.converser import (
    AssistantCanister,
    Canister,
    Context,
    Conversation,
    Converser,
    Ensemble,
    InvocationCanister,
    InvocationsProcessor,
    Invoker,
    MCPClient,
    ResultCanister,
    Role,
    TextualContent,
    UserCanister,
    load_ensemble,
    register_invoker,
)
from handrail.compat.converser.invokers import INVOCABLES
from handrail.core.errors import UsageError
from handrail.testing.model import ScriptedModel, call, text
from tests.seeds.document_samples import Coverage, names_of, not_offered, run, values_in
from tests.seeds.test_converser import WEATHER_SERVER

DOCUMENT = Coverage(
    "converser",
    listed={
        1: "what a user says, in words",
        5: "what the model says, in words",
        29: "what the model might say, in words",
    },
)
GIVEN = {
    **names_of(converser),
    "Any": Any,
    "Protocol": Protocol,
    "asyncio": asyncio,
    "dataclass": dataclass,
    "datetime": datetime,
    "json": json,
}
LOCATION = {"type": "object", "properties": {"location": {"type": "string"}}, "required": ["location"]}
PATH = {"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]}


@pytest.fixture(autouse=True)
def registered() -> Iterator[None]:
    """What a sample registers is gone after it."""
    before = dict(INVOCABLES)
    yield
    INVOCABLES.clear()
    INVOCABLES.update(before)


async def get_weather(context: Any, arguments: dict[str, Any]) -> dict[str, Any]:
    return {"temperature": 62, "conditions": "Partly cloudy", "location": arguments["location"]}


def weather() -> InvocationsProcessor:
    return InvocationsProcessor([Ensemble("weather", [Invoker("get_weather", get_weather, LOCATION)])])


def test_every_block_of_the_document_is_run_or_listed() -> None:
    assert len(DOCUMENT.blocks) == 29
    assert DOCUMENT.problems() == []


# ── Tool Calling Flow ────────────────────────────────────────────────────────────────


@DOCUMENT.runs(2, 4)
@pytest.mark.requirement("converser.processor")
@pytest.mark.parametrize("provider", ["openai", "anthropic"])
async def test_the_flat_messages_of_the_document_are_read_and_the_call_runs(provider: Any) -> None:
    processor = weather()

    said, invocation = processor.normalize(json.loads(DOCUMENT.code(2)), provider)
    (result,) = processor.normalize(json.loads(DOCUMENT.code(4)), provider)

    assert isinstance(said, AssistantCanister) and isinstance(invocation, InvocationCanister)
    assert (invocation.id, invocation.name) == ("call_abc123", "get_weather")
    assert invocation.arguments == {"location": "San Francisco, CA"}
    assert isinstance(result, ResultCanister)
    assert json.loads(result.content.text) == {"temperature": 62, "conditions": "Partly cloudy"}
    (ran,) = await processor.execute([invocation])
    assert json.loads(ran.content.text)["location"] == "San Francisco, CA"
    await processor.aclose()


@DOCUMENT.runs(3)
async def test_the_application_executes_the_tool() -> None:
    async def by_location(location: str) -> Any:
        return await Invoker("get_weather", get_weather, LOCATION)(Context(), {"location": location})

    ran = await run(DOCUMENT.code(3), {"get_weather": by_location})

    assert ran["result"]["location"] == "San Francisco, CA"


# ── Core Components ──────────────────────────────────────────────────────────────────


@DOCUMENT.runs(6, 8, 10, 13, 14)
@pytest.mark.parametrize("number", [6, 8, 10, 13, 14])
@pytest.mark.requirement("converser.invoker", "converser.ensemble", "converser.canisters")
async def test_the_classes_of_the_document_are_offered_with_their_fields_and_methods(number: int) -> None:
    """The listings run, and every name in them is in our module. They are the converser's own classes."""
    await run(DOCUMENT.code(number), GIVEN)

    assert not_offered(DOCUMENT.code(number), converser) == []


@DOCUMENT.runs(7)
@pytest.mark.requirement("converser.invoker")
async def test_a_registered_invoker_validates_runs_and_is_found_by_its_name() -> None:
    ran = await run(DOCUMENT.code(7), {**GIVEN, "temp": 62, "conditions": "Partly cloudy"})
    invoker = ran["get_weather"]

    assert await invoker(Context(), {"location": "SF"}) == {"temperature": 62, "conditions": "Partly cloudy"}
    with pytest.raises(converser.ValidationError, match="location"):
        await invoker(Context(), {})
    assert converser.load_invocable("get_weather") is invoker.invocable
    with pytest.raises(UsageError, match="get_whether"):
        converser.load_invocable("get_whether")


@DOCUMENT.runs(11)
@pytest.mark.requirement("converser.deduplicator")
async def test_the_documents_deduplicator_answers_a_repeated_call_without_running_it() -> None:
    deduplicator = (await run(DOCUMENT.code(11), GIVEN))["ExactDeduplicator"]()
    ran: list[str] = []

    async def look(context: Any, arguments: dict[str, Any]) -> str:
        ran.append(arguments["location"])
        return f"Sunny in {arguments['location']}"

    invoker = Invoker("look", look, LOCATION, deduplicator=deduplicator)
    answers = [await invoker(Context(), {"location": place}) for place in ("Rome", "Rome", "Oslo")]

    assert answers == ["Sunny in Rome", "Sunny in Rome", "Sunny in Oslo"]
    assert ran == ["Rome", "Oslo"]
    assert deduplicator.is_duplicate("look", {"location": "Oslo"})


# ── Invocation Flow in Code ──────────────────────────────────────────────────────────


@DOCUMENT.runs(12)
@pytest.mark.requirement("converser.processor", "converser.canisters")
async def test_the_invocation_flow_in_code(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its descriptors are the document's own TOML, which finds `read_file` by name."""
    folder = tmp_path / "data/ensembles/io/invokers"
    folder.mkdir(parents=True)
    (folder / "read_file.toml").write_text(DOCUMENT.code(24))
    monkeypatch.chdir(tmp_path)
    deduplicator = (await run(DOCUMENT.code(11), GIVEN))["ExactDeduplicator"]()

    @register_invoker(name="read_file", schema=PATH, deduplicator=deduplicator)
    async def read_file(context: Any, arguments: dict[str, Any]) -> dict[str, Any]:
        assert context.auxdata == context.namespace == {...}
        return {"path": arguments["path"], "encoding": arguments["encoding"], "text": "All is well."}

    model = ScriptedModel([text("All is well, it says.")])
    said: list[Canister] = [
        UserCanister(TextualContent("What does the report say?")),
        AssistantCanister(),
        InvocationCanister("call_abc123", "read_file", {"path": "/data/report.txt"}),
    ]
    given = {**GIVEN, "conversation": Conversation(said), "model": Converser(model)}
    ran = await run(DOCUMENT.code(12), given)

    assert ran["result"] == {"path": "/data/report.txt", "encoding": "utf-8", "text": "All is well."}
    assert deduplicator.is_duplicate("read_file", {"path": "/data/report.txt"})
    assert [type(each) for each in ran["conversation"].canisters[-2:]] == [InvocationCanister, ResultCanister]
    (reply,) = ran["response"]
    assert isinstance(reply, AssistantCanister) and reply.content == TextualContent("All is well, it says.")
    assert [message.result.name for message in model.requests[0].messages if hasattr(message, "result")] == [
        "read_file"
    ]
    _, invocation = ran["processor"].normalize(ran["assistant_message"])
    assert isinstance(invocation, InvocationCanister)
    assert invocation.id and invocation.name == "read_file", "a call without an id is not dropped"
    await ran["processor"].aclose()


# ── Message Representation ───────────────────────────────────────────────────────────


@DOCUMENT.runs(15)
@pytest.mark.requirement("converser.canisters", "converser.processor")
@pytest.mark.parametrize("provider", ["openai", "anthropic"])
async def test_the_conversation_of_the_document_goes_to_a_provider_and_back(provider: Any) -> None:
    conversation = (await run(DOCUMENT.code(15), GIVEN))["conversation"]
    processor = weather()

    back = processor.normalize(processor.nativize(conversation, provider), provider)

    roles = [Role.user, Role.assistant, Role.invocation, Role.result, Role.assistant]
    assert [each.role for each in conversation] == [each.role for each in back] == roles
    assert [getattr(each, "content", None) for each in back] == [
        getattr(each, "content", None) for each in conversation
    ]
    assert all(isinstance(each.timestamp, datetime) for each in conversation)
    await processor.aclose()


INVOCATION = InvocationCanister("call_123", "get_weather", {"location": "San Francisco, CA"})
RESULT = ResultCanister("call_123", TextualContent('{"temp": 62}'))


@DOCUMENT.runs(16, 18)
@pytest.mark.requirement("converser.processor")
@pytest.mark.parametrize(("number", "provider"), [(16, "anthropic"), (18, "openai")])
async def test_a_call_and_a_result_are_written_as_the_document_writes_them(number: int, provider: Any) -> None:
    given = {"invocation": INVOCATION, "result": RESULT, "json": json, "null": None}
    shown = values_in(DOCUMENT.code(number), given)
    processor = weather()

    ours = [processor.nativize_invocation(INVOCATION, provider), processor.nativize_result(RESULT, provider)]

    def parsed(native: dict[str, Any]) -> dict[str, Any]:
        """With the arguments read, because spaces in JSON text mean nothing."""
        for each in native.get("tool_calls", ()):
            each["function"]["arguments"] = json.loads(each["function"]["arguments"])
        return native

    assert [parsed(each) for each in ours] == [parsed(each) for each in shown]
    await processor.aclose()


@DOCUMENT.runs(17)
@pytest.mark.requirement("converser.processor")
async def test_an_anthropic_block_is_read_as_the_document_reads_it() -> None:
    processor = weather()
    block = processor.nativize_invocation(INVOCATION, "anthropic")

    (shown,) = values_in(DOCUMENT.code(17), {**GIVEN, "block": block})
    _, ours = processor.normalize({"role": "assistant", "content": [block]}, "anthropic")

    assert _without_time(ours) == _without_time(shown) == _without_time(INVOCATION)
    await processor.aclose()


@DOCUMENT.runs(19)
@pytest.mark.requirement("converser.processor")
async def test_openai_calls_are_read_as_the_document_reads_them() -> None:
    processor = weather()
    message = processor.nativize_invocation(INVOCATION, "openai")
    shown: list[InvocationCanister] = []

    def note(**fields: Any) -> None:
        shown.append(InvocationCanister(**fields))

    await run(DOCUMENT.code(19), {"message": message, "json": json, "InvocationCanister": note})
    _, ours = processor.normalize(message, "openai")

    assert _without_time(ours) == _without_time(shown[0]) == _without_time(INVOCATION)
    await processor.aclose()


def _without_time(canister: Any) -> tuple[str, str, dict[str, Any]]:
    return canister.id, canister.name, canister.arguments


# ── MCP Server Integration ───────────────────────────────────────────────────────────


@pytest.fixture
def weather_server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = tmp_path / "weather-server"
    program.write_text(WEATHER_SERVER.format(python=sys.executable))
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)


@DOCUMENT.runs(20, 21)
@pytest.mark.usefixtures("weather_server")
@pytest.mark.requirement("converser.mcp-client")
@pytest.mark.parametrize("number", [20, 21])
async def test_tools_of_an_mcp_server_become_invokers_of_an_ensemble(number: int) -> None:
    ran = await run(DOCUMENT.code(number), {**GIVEN, "io_ensemble": Ensemble("io")})

    invokers = ran["io_ensemble"].invokers
    assert list(invokers) == ["get_weather", "get_forecast"]
    assert "sunny in Lisbon" in str(await invokers["get_weather"](Context(), {"location": "Lisbon"}))
    await ran["mcp_client"].aclose()


@DOCUMENT.runs(22)
@pytest.mark.usefixtures("weather_server")
@pytest.mark.requirement("converser.mcp-client")
async def test_the_documents_adapter_makes_invokers_of_mcp_tools() -> None:
    ensemble = Ensemble("mcp")
    adapt = (await run(DOCUMENT.code(22), {**GIVEN, "mcp_ensemble": ensemble}))["create_invoker_from_mcp_tool"]
    client = MCPClient("stdio://weather-server")
    tools = await client.list_tools()

    invoker = adapt(tools[0], client)

    assert isinstance(invoker, Invoker)
    assert (invoker.ensemble, invoker.deduplicator) == (ensemble, None)
    assert invoker.arguments_schema == tools[0].input_schema
    assert "sunny in Porto" in str(await invoker(Context(), {"location": "Porto"}))
    await client.aclose()


@DOCUMENT.runs(23)
@pytest.mark.requirement("converser.ensemble")
async def test_one_ensemble_for_each_server() -> None:
    names = ("get_weather", "get_forecast", "read_file", "write_file")
    invokers = {f"{name}_invoker": Invoker(name, get_weather, LOCATION) for name in names}

    ran = await run(DOCUMENT.code(23), {**GIVEN, **invokers})

    assert list(ran["weather_ensemble"].invokers) == ["get_weather", "get_forecast"]
    ran["file_ensemble"].disable()
    assert ran["file_ensemble"].invokers == {}
    assert (await ran["weather_ensemble"].invokers["get_weather"](Context(), {"location": "SF"}))["temperature"] == 62


# ── Configuration-Driven Invocables ──────────────────────────────────────────────────


def register_files() -> None:
    """The functions that the TOML files of the document find by name."""

    @register_invoker(name="read_file", schema=PATH)
    async def read_file(context: Any, arguments: dict[str, Any]) -> str:
        return f"read {arguments['path']} as {arguments.get('encoding')}"

    @register_invoker(name="write_file", schema=PATH)
    async def write_file(context: Any, arguments: dict[str, Any]) -> str:
        return f"wrote {arguments['path']}"


@DOCUMENT.runs(9)
@pytest.mark.requirement("converser.toml")
async def test_invokers_that_are_only_described_run_the_functions_of_their_names(tmp_path: Path) -> None:
    register_files()
    file = tmp_path / "io.toml"
    file.write_text(DOCUMENT.code(9))

    ensemble = load_ensemble(file)

    assert {name: each.tool.definition.description for name, each in ensemble.invokers.items()} == {
        "read_file": "Read contents of a file",
        "write_file": "Write content to a file",
    }
    assert await ensemble.invokers["read_file"](Context(), {"path": "a"}) == "read a as None"
    assert await ensemble.invokers["write_file"](Context(), {"path": "a"}) == "wrote a"


@DOCUMENT.runs(24, 25)
@pytest.mark.requirement("converser.toml")
async def test_the_descriptors_of_the_document_load_as_they_stand_and_run(tmp_path: Path) -> None:
    register_files()
    (tmp_path / "io/invokers").mkdir(parents=True)
    (tmp_path / "io/invokers/read_file.toml").write_text(DOCUMENT.code(24))
    (tmp_path / "io/invokers/write_file.toml").write_text(DOCUMENT.code(24).replace("read_file", "write_file"))
    (tmp_path / "io.toml").write_text(DOCUMENT.code(25))

    ensemble = load_ensemble(tmp_path / "io.toml")

    read_file = ensemble.invokers["read_file"]
    assert await read_file(Context(), {"path": "/data/a.txt"}) == "read /data/a.txt as utf-8"
    assert (read_file.tool.definition.timeout, read_file.tool.retry and read_file.tool.retry.attempts) == (30, 4)
    with pytest.raises(converser.ValidationError, match="path"):
        await read_file(Context(), {})


@DOCUMENT.runs(26)
@pytest.mark.requirement("converser.ensemble", "converser.toml")
async def test_the_documents_loading_of_invocables_and_ours_give_the_same_ensembles() -> None:
    register_files()
    config = {
        "ensembles": [
            {
                "name": "io",
                "invokers": [
                    {"name": "read_file", "arguments": PATH, "deduplicator": "exact"},
                    {"name": "write_file", "arguments": PATH, "enabled": False},
                ],
            }
        ]
    }
    theirs = (await run(DOCUMENT.code(26), GIVEN))["prepare_invocables"]

    for prepare in (theirs, converser.prepare_invocables):
        (ensemble,) = await prepare(config)
        assert list(ensemble.invokers) == ["read_file"]
        assert ensemble.invokers["read_file"].deduplicator is not None
        assert await ensemble.invokers["read_file"](Context(), {"path": "a"}) == "read a as None"
    with pytest.raises(UsageError, match="'delete_file'"):
        await converser.prepare_invocables(
            {"ensembles": [{"name": "io", "invokers": [{"name": "delete_file", "arguments": PATH}]}]}
        )


@pytest.mark.requirement("converser.deduplicator")
async def test_the_deduplicator_that_a_file_names_is_the_one_that_a_program_asks(tmp_path: Path) -> None:
    register_files()
    file = tmp_path / "io.toml"
    file.write_text(DOCUMENT.code(9).replace("enabled = true\ndescription", 'deduplicator = "exact"\ndescription', 1))
    ensemble = load_ensemble(file)
    invoker, processor = ensemble.invokers["read_file"], InvocationsProcessor([ensemble])

    await processor.find_invoker("read_file")(Context(), {"path": "a"})
    assert invoker.deduplicator is processor.find_invoker("read_file").deduplicator is not None
    assert not invoker.deduplicator.is_duplicate("read_file", {"path": "a"}), "that is for programs that record"
    invoker.deduplicator.record("read_file", {"path": "a"})
    assert invoker.deduplicator.is_duplicate("read_file", {"path": "a"})
    await processor.aclose()
    await ensemble.close()


# ── Error Handling in Tool Calling ───────────────────────────────────────────────────


@DOCUMENT.runs(27)
@pytest.mark.requirement("converser.errors", "converser.alerts")
async def test_the_error_handling_of_the_document_tells_its_errors_apart() -> None:
    alerts: list[str] = []
    given = {
        **GIVEN,
        "context": Context(),
        "invocation_id": "call_123",
        "jsonschema": converser,
        "logger": logging.getLogger("sample"),
        "alert_user": alerts.append,
    }
    execute = (await run(DOCUMENT.code(27), given))["execute_invoker"]

    async def hang(context: Any, arguments: dict[str, Any]) -> None:
        await asyncio.Event().wait()

    async def fail(context: Any, arguments: dict[str, Any]) -> None:
        raise FileNotFoundError("/data/missing.txt")

    def invoker(invocable: Any, **changes: Any) -> Invoker:
        return Invoker.of(Invoker("tool", invocable, LOCATION).tool.changed(**changes))

    fine = await execute(invoker(get_weather), {"location": "SF"})
    wrong = await execute(invoker(get_weather), {})
    late = await execute(invoker(hang, timeout=0.01), {"location": "SF"})
    broken = invoker(fail)
    with pytest.raises(converser.ToolExecutionError, match="Tool 'tool' failed") as failed:
        await execute(broken, {"location": "SF"})

    assert (fine.error, json.loads(fine.content.text)["temperature"]) == (None, 62)
    assert wrong.content.text.startswith("Error: Invalid arguments - ") and "location" in wrong.error
    assert (late.error, late.content.text) == ("timeout", "Error: Tool execution timed out")
    assert (failed.value.invoker, failed.value.arguments) == (broken, {"location": "SF"})
    assert len(alerts) == 1 and "/data/missing.txt" in alerts[0]


@DOCUMENT.runs(28)
@pytest.mark.requirement("converser.errors")
async def test_a_result_with_an_error_reaches_the_model_as_a_failure() -> None:
    (canister,) = values_in(DOCUMENT.code(28), GIVEN)
    processor = weather()

    assert processor.nativize_result(canister, "anthropic") == {
        "type": "tool_result",
        "tool_use_id": "call_123",
        "content": "Error: File not found: /data/missing.txt",
        "is_error": True,
    }
    assert canister.role is Role.result
    await processor.aclose()


async def test_a_model_that_calls_is_answered_by_the_processor_in_canisters() -> None:
    """The whole circle of the document: converse, execute, converse."""
    ensemble = Ensemble("weather", [Invoker("get_weather", get_weather, LOCATION)])
    script = ScriptedModel([call("get_weather", "c1", location="SF")], [text("62°F and partly cloudy.")])
    conversation, model = Conversation([UserCanister(TextualContent("Weather in SF?"))]), Converser(script, [ensemble])
    processor = InvocationsProcessor([ensemble])

    said, asked = await model.converse(conversation.canisters)
    assert isinstance(asked, InvocationCanister)
    for canister in (said, asked, *await processor.execute([asked])):
        conversation.add_canister(canister)
    (answer,) = await model.converse(conversation.canisters)

    assert isinstance(answer, AssistantCanister)
    assert answer.content == TextualContent("62°F and partly cloudy.")
    assert [offer.name for offer in script.requests[0].tools] == ["get_weather"]
    await processor.aclose()
