"""The nine scenarios of hearthnet-tool-calls.md §8, by their names, on every way to a node."""

from __future__ import annotations

import asyncio
import json
import random
import re
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from functools import partial
from typing import Any

import pytest

from handrail import CapabilityBus, ToolCall, ToolDefinition, ToolError, ToolExecutor
from handrail.core.events import ModelEvent
from handrail.core.messages import UserMessage
from handrail.core.model_request import ModelRequest
from handrail.core.ports import Model
from handrail.models.grammar.call_grammar import tool_call_grammar
from handrail.models.openai_chat import OpenAIChatCodec
from handrail.models.profiles import profile_for
from handrail.models.prompted.codec import PromptedCodec
from handrail.node.bus.descriptor import CapabilityDescriptor
from handrail.node.bus.interfaces import Bus
from handrail.node.bus.request import RouteRequest
from handrail.node.chat.request import request_of
from handrail.node.services.event_log import EventLog
from handrail.node.services.llm import LlmService
from handrail.node.services.market import MarketService
from handrail.node.services.rag.index import DocumentIndex
from handrail.node.services.rag.service import RagService
from handrail.node.services.translation import TransService
from handrail.sessions.conversion import FORMS, convert_tools
from handrail.testing.embedding import WordEmbedder
from handrail.testing.model import ScriptedModel, call, text
from handrail.tools.definition import Binding
from handrail.tools.schema.validator import Validator
from tests.models.grammar.grammar_walk import walk
from tests.models.prompted.text_codec import calls_of, events
from tests.node.bus.scripted_models import DecidingModel, results
from tests.node.bus.transports import TRANSPORTS
from tests.node.services.real_apertium import real_apertium

Way = Callable[[CapabilityBus], AbstractAsyncContextManager[Bus]]

pytestmark = pytest.mark.requirement("hearthnet.scenarios")

SEARCH: dict[str, Any] = {
    "name": "search_corpus",
    "description": "Search a corpus.",
    "parameters_schema": {
        "type": "object",
        "properties": {"query": {"type": "string"}, "corpus": {"type": "string"}},
        "required": ["query", "corpus"],
    },
    "bound_capability": "rag.query",
    "bound_version": [1, 0],
    "side_effects": False,
}


@pytest.fixture(params=list(TRANSPORTS))
def way(request: pytest.FixtureRequest) -> Way:
    return TRANSPORTS[request.param]


CHATS = pytest.mark.parametrize(
    ("way", "interactive"),
    [
        pytest.param(way, interactive, id=f"{name}, {'one stream' if interactive else 'asking again'}")
        for name, way in TRANSPORTS.items()
        for interactive in (False, True)
        if not (interactive and name == "http-sse")  # events go one way
    ],
)
"""Both ways that the document gives a result back: into the stream, or by calling `llm.chat` again."""


@asynccontextmanager
async def a_node(model: Model, **services: Any) -> AsyncIterator[CapabilityBus]:
    async with CapabilityBus() as node:
        node.register_service(LlmService({"m": model}))
        for service in services.values():
            node.register_service(service)
        yield node


def ask(question: str, **input: Any) -> dict[str, Any]:
    return {"params": {"model": "m"}, "input": {"messages": [{"role": "user", "content": question}], **input}}


# ── unit ─────────────────────────────────────────────────────────────────────────────────


def _compatible(family: str, asked: ModelRequest) -> Any:
    codec = OpenAIChatCodec(profile=profile_for("vllm", family))
    return codec.encode(asked, family, stream=True).body["tools"]


def _converted(provider: str, asked: ModelRequest) -> Any:
    tools = [ToolDefinition(each.name, each.description, each.input_schema) for each in asked.tools]
    return convert_tools(provider, tools).tools


_BACKENDS: dict[str, Callable[[ModelRequest], Any]] = {
    **{name: partial(_converted, name) for name in FORMS},
    **{f"{family}, compatible": partial(_compatible, family) for family in ("nemotron", "openbmb/minicpm4")},
}


_SCHEMA: dict[str, Any] = SEARCH["parameters_schema"]
_FUNCTION = {"name": "search_corpus", "description": "Search a corpus.", "parameters": _SCHEMA}
_NATIVE: dict[str, Any] = {
    "openai": [{"type": "function", "function": _FUNCTION}],
    "openai-responses": [{"type": "function", **_FUNCTION, "strict": False}],
    "anthropic": [{"name": "search_corpus", "description": "Search a corpus.", "input_schema": _SCHEMA}],
    "ollama": [{"type": "function", "function": _FUNCTION}],
    "gemini": [
        {
            "functionDeclarations": [
                {"name": "search_corpus", "description": "Search a corpus.", "parametersJsonSchema": _SCHEMA}
            ]
        }
    ],
    "bedrock": [
        {
            "toolSpec": {
                "name": "search_corpus",
                "description": "Search a corpus.",
                "inputSchema": {"json": _SCHEMA},
            }
        }
    ],
    "nemotron, compatible": [{"type": "function", "function": {**_FUNCTION, "strict": True}}],
    "openbmb/minicpm4, compatible": [{"type": "function", "function": {**_FUNCTION, "strict": True}}],
}
"""What the documentation of each service asks for, with the whole schema."""


def _offered() -> ModelRequest:
    executor = ToolExecutor(CapabilityBus(), [SEARCH])
    return request_of(ask("?", tools=executor.native_definitions)["input"], {})


@pytest.mark.parametrize("backend", [*FORMS, *(name for name in _BACKENDS if name.endswith("compatible"))])
def test_tool_definition_to_native_format(backend: str) -> None:
    assert _BACKENDS[backend](_offered()) == _NATIVE[backend]


def test_tool_definition_to_native_format_of_a_grammar() -> None:
    """llama.cpp is given a grammar: whatever it lets through is a call of the tool that fits its schema."""
    grammar = tool_call_grammar(_offered().tools, "hermes", parallel=False)
    fits = Validator(_SCHEMA, "search_corpus")

    for seed in range(40):
        (called,) = calls_of(events("hermes", [walk(grammar, random.Random(seed))], *_offered().tools))
        assert called.name == "search_corpus"
        assert fits.problems(json.loads(str(called.arguments))) == []


def test_tool_definition_to_native_format_of_a_prompt() -> None:
    """MiniCPM-V reads its tools in the prompt: each as JSON, whole."""
    profile = profile_for("vllm", "MiniCPM-V-4")
    assert profile.tools == "prompted"
    codec = PromptedCodec(OpenAIChatCodec(profile=profile), profile.prompted_format)

    written = codec.compiled_prompt(_offered())

    found = [json.loads(line) for line in written.splitlines() if line.startswith("{") and "search_corpus" in line]
    assert [ToolDefinition.from_dict(each) for each in found] == [
        ToolDefinition("search_corpus", "Search a corpus.", _SCHEMA)
    ]


async def test_dispatch_validates_arguments(way: Way) -> None:
    ran: list[dict[str, Any]] = []

    async def query(request: RouteRequest) -> dict[str, Any]:
        ran.append(request.body)
        return {"output": {"chunks": []}}

    async with CapabilityBus() as node, way(node) as bus:
        node.register(CapabilityDescriptor(name="rag.query"), query)
        executor = ToolExecutor(bus, [SEARCH])
        wrong = await executor.dispatch(ToolCall("tc_1", "search_corpus", {"query": 7}))
        right = await executor.dispatch(ToolCall("tc_2", "search_corpus", {"query": "rain", "corpus": "village"}))

    assert wrong.is_error and wrong.text.startswith("invalid_arguments:")
    assert "query" in wrong.text and "corpus" in wrong.text
    assert not right.is_error
    assert ran == [{"input": {"query": "rain", "corpus": "village"}}]


async def test_side_effect_tool_requires_confirmation(way: Way) -> None:
    log = EventLog()
    async with a_node(ScriptedModel(), market=MarketService(log)) as node, way(node) as bus:
        executor = ToolExecutor(bus, ["post_to_marketplace"])
        post = ToolCall("tc_1", "post_to_marketplace", {"category": "offer", "title": "Eggs", "body": "Six."})

        with pytest.raises(ToolError) as refused:
            await executor.dispatch(post)
        before = await posts(bus)
        changed = await executor.dispatch_confirmed(
            ToolCall("tc_1", "post_to_marketplace", {"category": "offer", "title": "Eggs", "body": "Twelve."})
        )
        done = await executor.dispatch_confirmed(post)
        again = await executor.dispatch_confirmed(post)
        after = await posts(bus)

    assert refused.value.code == str(refused.value) == "requires_confirmation"
    assert before == []
    assert changed.is_error and again.is_error
    assert not done.is_error
    assert [post["body"] for post in after] == ["Six."]


async def posts(bus: Bus) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = (await bus.call("market.list", (1, 0), {"input": {}}))["output"]["posts"]
    return found


@pytest.mark.requirement("hearthnet.iteration-limit", "hearthnet.errors")
@CHATS
async def test_iteration_limit_forces_finalisation(way: Way, interactive: bool) -> None:
    def decide(request: ModelRequest) -> Iterator[ModelEvent]:
        if request.tool_choice == "none":
            yield text(f"That is all I found in {len(results(request))} tries.")
        else:
            yield call("list_corpora")

    model = DecidingModel(decide)
    index = DocumentIndex(None, WordEmbedder())
    async with a_node(model, rag=RagService(index)) as node, way(node) as bus:
        calls: list[tuple[Any, Any]] = []
        node.listeners.append(lambda event: calls.append((event.capability, event.result)))
        executor = ToolExecutor(bus, ["list_corpora"], max_iterations=2, interactive=interactive)
        answer = await executor.run_chat_with_tools(ask("Which?"))

    assert answer == {"role": "assistant", "content": "That is all I found in 2 tries."}
    assert [request.tool_choice for request in model.requests] == ["auto", "auto", "none"]
    assert [name for name, _ in calls].count("llm.chat") == (1 if interactive else 3)


@pytest.mark.requirement("hearthnet.parallel")
@CHATS
async def test_parallel_tool_calls_collected(way: Way, interactive: bool) -> None:
    most, now = 0, 0
    both = asyncio.Barrier(4)

    async def slow(request: RouteRequest) -> dict[str, Any]:
        nonlocal most, now
        now += 1
        most = max(most, now)
        await asyncio.wait_for(both.wait(), 10)
        now -= 1
        return {"output": {"n": request.input["n"]}}

    count = ToolDefinition.from_dict(
        {
            "name": "count",
            "parameters_schema": {"type": "object", "properties": {"n": {"type": "integer"}}},
            "bound_capability": "test.count",
        }
    )
    model = ScriptedModel([call("count", f"tc_{n}", n=n) for n in range(8)], [text("Counted.")])
    async with a_node(model) as node, way(node) as bus:
        node.register(CapabilityDescriptor(name="test.count", max_concurrent=16), slow)
        answer = await ToolExecutor(bus, [count], interactive=interactive).run_chat_with_tools(ask("Count."))

    assert answer["content"] == "Counted."
    assert most == 4
    assert [json.loads(each) for each in results(model.requests[1])] == [{"n": n} for n in range(8)]


# ── integration ──────────────────────────────────────────────────────────────────────────

CISTERN = (
    "Rainwater from the roof of the mill is kept in a cistern of 4200 litres below the barn. "
    "In an emergency its tap is opened by the warden, and each household may take twenty litres a day."
)
BREAD = "The baker opens at six. Rye bread is sold on Tuesdays and Fridays, and rolls every day but Sunday."


@CHATS
async def test_search_corpus_tool_used_for_grounded_answer(way: Way, interactive: bool) -> None:
    def decide(request: ModelRequest) -> Iterator[ModelEvent]:
        if found := results(request):
            chunk = json.loads(found[-1])["chunks"][0]
            yield text(f"By {chunk['metadata']['doc_title']!r}: {chunk['text']}")
        else:
            yield text("Let me look. ")
            yield call("search_corpus", "tc_1", query="emergency rainwater litres", corpus="village", k=1)

    model = DecidingModel(decide)
    frames: list[dict[str, Any]] = []

    async def stream_to(frame: dict[str, Any]) -> None:
        frames.append(frame)

    async with a_node(model, rag=RagService(DocumentIndex(None, WordEmbedder()))) as node, way(node) as bus:
        for title, words in (("Cistern", CISTERN), ("Bakery", BREAD)):
            document = {"text": words, "media_type": "text/plain", "title": title}
            await node.call("rag.ingest", (1, 0), {"params": {"corpus": "village"}, "input": document})
        executor = ToolExecutor(bus, ["search_corpus", "list_corpora"], interactive=interactive)
        answer = await executor.run_chat_with_tools(
            ask("How much rainwater may my household take in an emergency?"), stream_to=stream_to
        )

    assert "'Cistern'" in answer["content"] and "twenty litres a day" in answer["content"]
    assert [frame["event"] for frame in frames] == ["token", "tool_call_delta", "tool_call", "token", "done"]
    assert frames[2]["data"] == {
        "id": "tc_1",
        "name": "search_corpus",
        "arguments": {"query": "emergency rainwater litres", "corpus": "village", "k": 1},
    }


VILLAGE = {
    "Water": "In an emergency each family can take twenty litres of water.",
    "Bakery": "The baker opens every morning and sells fresh bread.",
}


@CHATS
async def test_translate_chain(way: Way, interactive: bool) -> None:
    """Somebody types Spanish about a village whose documents are English.

    The model knows nothing by itself: it has what was typed translated, searches with that, has what it found
    translated back, and says that. Apertium translates, and the corpus is searched for the translated words.
    """

    def decide(request: ModelRequest) -> Iterator[ModelEvent]:
        typed = next(message.text for message in request.messages if isinstance(message, UserMessage))
        match [json.loads(each) for each in results(request)]:
            case []:
                yield call("translate", text=typed, **{"from": "es", "to": "en"})
            case [{"text": english}]:
                asked.append(english)
                yield call("search_corpus", query=english, corpus="village", k=1)
            case [_, {"chunks": [{"text": found}]}]:
                yield call("translate", text=found, **{"from": "en", "to": "es"})
            case [_, _, {"text": spanish}]:
                yield text(spanish)

    asked: list[str] = []
    answers: list[str] = []
    services = {
        "trans": TransService(apertium=real_apertium()),
        "rag": RagService(DocumentIndex(None, WordEmbedder())),
    }
    async with a_node(DecidingModel(decide), **services) as node, way(node) as bus:
        for title, words in VILLAGE.items():
            document = {"text": words, "media_type": "text/plain", "title": title}
            await node.call("rag.ingest", (1, 0), {"params": {"corpus": "village"}, "input": document})
        executor = ToolExecutor(bus, ["translate", "search_corpus"], interactive=interactive)
        for question in ("¿Cuántos litros de agua puede tomar una familia?", "¿Qué pan vende el panadero?"):
            answers.append((await executor.run_chat_with_tools(ask(question)))["content"])

    # Words, not whole sentences: the rules for their order change from one release of the pair to the next.
    assert [words_in(each) & {"water", "family", "bread", "baker"} for each in asked] == [
        {"water", "family"},
        {"bread", "baker"},
    ]
    assert {"familia", "veinte", "litros", "agua"} <= words_in(answers[0])
    assert {"panadero", "mañana", "vende", "pan", "fresco"} <= words_in(answers[1])


def words_in(sentence: str) -> set[str]:
    return set(re.findall(r"\w+", sentence.lower()))


@pytest.mark.requirement("hearthnet.confirmation")
@pytest.mark.parametrize("said", ["yes", "no", "nothing"])
@CHATS
async def test_market_post_requires_confirmation(way: Way, interactive: bool, said: str) -> None:
    def decide(request: ModelRequest) -> Iterator[ModelEvent]:
        if found := results(request):
            yield text(f"Told: {found[-1]}")
        else:
            yield call("post_to_marketplace", "tc_1", category="offer", title="Eggs", body="Six.")

    asked: list[dict[str, Any]] = []
    async with a_node(DecidingModel(decide), market=MarketService(EventLog())) as node, way(node) as bus:
        patience = 0.05 if said == "nothing" else 30
        executor = ToolExecutor(bus, ["post_to_marketplace"], confirmation_seconds=patience, interactive=interactive)
        answers: list[asyncio.Task[Any]] = []

        async def page(frame: dict[str, Any]) -> None:
            if frame["event"] == "confirmation_required":
                asked.append(frame["data"])
                shown = ToolCall(frame["data"]["id"], frame["data"]["name"], frame["data"]["arguments"])
                if said == "yes":
                    answers.append(asyncio.create_task(executor.dispatch_confirmed(shown)))
                elif said == "no":
                    assert executor.decline(shown, "not today")

        answer = await executor.run_chat_with_tools(ask("Sell my eggs."), stream_to=page)
        listed = await posts(bus)

    assert [(each["id"], each["name"], each["side_effects"]) for each in asked] == [
        ("tc_1", "post_to_marketplace", True)
    ]
    assert asked[0]["arguments"] == {"category": "offer", "title": "Eggs", "body": "Six."} and asked[0]["description"]
    assert [post["title"] for post in listed] == (["Eggs"] if said == "yes" else [])
    match said:
        case "yes":
            assert "event_id" in answer["content"]
            assert (await answers[0]).content["event_id"] == listed[0]["event_id"]
        case "no":
            assert "not today" in answer["content"]
        case "nothing":
            assert "waits for a person" in answer["content"]


@pytest.mark.requirement("hearthnet.composition")
@CHATS
async def test_recursive_tool_call_limited_by_max_iterations(way: Way, interactive: bool) -> None:
    """An expert that is itself a chat with tools, one of which is the expert."""
    depths: list[int] = []
    expert = ToolDefinition.from_dict(
        {
            "name": "ask_expert",
            "parameters_schema": {"type": "object", "properties": {"q": {"type": "string"}}, "required": ["q"]},
            "bound_capability": "expert.ask",
        }
    )

    def decide(request: ModelRequest) -> Iterator[ModelEvent]:
        if request.tool_choice == "none" or results(request):
            yield text("".join(results(request)[-1:]) or "I give up.")
        else:
            yield call("ask_expert", q="why?")

    async def answer(request: RouteRequest) -> dict[str, Any]:
        depths.append(request.context.depth)
        inner = ToolExecutor(node, [expert], max_iterations=3, how=request.passed_on())
        said = await inner.run_chat_with_tools(ask("why?"))
        return {"output": {"said": said["content"][:200]}}

    async with a_node(DecidingModel(decide)) as node, way(node) as bus:
        node.register(CapabilityDescriptor(name="expert.ask", timeout_seconds=60, max_concurrent=64), answer)
        executor = ToolExecutor(bus, [expert], max_iterations=3, interactive=interactive)
        outcome = await executor.run_chat_with_tools(ask("why?"))

    assert max(depths) == 3 and depths == sorted(set(depths))
    assert "deep" in outcome["content"]


# ── the same, with a model that nobody scripted ──────────────────────────────────────────


@pytest.mark.slow
async def test_the_embedded_model_answers_from_the_corpus() -> None:
    from handrail.models.local.model import create_local
    from handrail.models.local.weights import find_weights
    from handrail.sessions.store.embedding import WordLlamaEmbedder

    if find_weights() is None:
        pytest.fail("the weights of the local model are missing; run: .venv/bin/python scripts/setup_local.py")
    model = create_local(embedder=WordLlamaEmbedder)
    seen: list[dict[str, Any]] = []

    async def stream_to(frame: dict[str, Any]) -> None:
        seen.append(frame)

    try:
        async with a_node(model, rag=RagService(DocumentIndex(None, WordLlamaEmbedder()))) as node:
            document = {"text": CISTERN, "media_type": "text/plain", "title": "Cistern"}
            await node.call("rag.ingest", (1, 0), {"params": {"corpus": "village"}, "input": document})
            # A small model is given little to get wrong: which corpus, and how much of it, is not its to say.
            bound = Binding("rag.query", params=("corpus",), constants={"corpus": "village", "k": 1})
            schema = {"type": "object", "properties": {"query": {"type": "string"}}, "required": ["query"]}
            search = ToolDefinition("search_corpus", "Search the documents of the village.", schema, binding=bound)
            answer = await ToolExecutor(node, [search]).run_chat_with_tools(
                ask("How many litres does the cistern of the mill hold?", temperature=0, tool_choice="required"),
                stream_to=stream_to,
            )
    finally:
        model.close()

    calls = [frame["data"] for frame in seen if frame["event"] == "tool_call"]
    assert [each["name"] for each in calls] == ["search_corpus"]
    assert "4200" in answer["content"].replace(",", "")
