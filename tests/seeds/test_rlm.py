"""The programs of rlm-tools-api.md, import lines aside, in the two sandboxes that hold something.

Models are scripts, since the document's services are not there. Where it writes `...` something stands. Its
`tool_handler`, "injected by RLM", is the one that the REPL has: what it calls is given as `custom_tools`.
"""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from handrail import RLM
from handrail.core.messages import ResultMessage
from handrail.core.model_request import NamedTool
from handrail.core.ports import Model
from handrail.rlm import LMHandler, LMRequest, LMResponse, Queries, RLMIteration, llm_query
from handrail.testing.model import ScriptedModel, call, text
from handrail.tools.tool import tool
from tests.rlm.root_models import Echo, Root, repl

KINDS = ("monty", "os")
"""What code sees of `process` is what it sees of `os`."""

TOOLS = [{
    "type": "function",
    "function": {
        "name": "get_stats",
        "description": "Get pre-computed statistics for a question",
        "parameters": {
            "type": "object",
            "properties": {
                "question_id": {"type": "string"}
            },
            "required": ["question_id"],
            "additionalProperties": False
        },
        "strict": True
    }
}]  # fmt: skip
GIVEN = f"import json\n\nTOOLS = {TOOLS}\n"

STATS_CACHE = {
    "q1": {"total": 500, "avg": 4.2, "distribution": {"5": 300, "3": 200}},
    "q2": {"total": 500, "avg": 3.8, "distribution": {"5": 100, "3": 400}},
}


@tool(side_effects=False)
def get_stats(question_id: str) -> dict[str, Any]:
    """Get pre-computed statistics for a question."""
    return STATS_CACHE.get(question_id, {})


@tool(side_effects=False)
def get_stats_tool(q_id: int) -> dict[str, Any]:
    """Statistics of a question by its number."""
    return STATS_CACHE[f"q{q_id}"]


@tool(side_effects=False)
def count_responses(choice: str) -> int:
    """How many responses have this choice."""
    return {"A": 7}[choice]


CUSTOM = {"get_stats": get_stats, "get_stats_tool": get_stats_tool, "count_responses": count_responses}


async def ran(kind: str, code: str, model: Model, setup_code: str = GIVEN) -> Any:
    """What code of the document leaves in `result`; if it raises, the last line of what it says."""
    root = Root(repl(code), repl("FINAL(json.dumps(result))"))
    async with RLM(root, environment=kind, setup_code=setup_code, other_backends=[model], custom_tools=CUSTOM) as rlm:
        completion = await rlm.acompletion("a context", "a question")
    if "ended by an exception" in root.read(1):
        return root.read(1).split("```")[-2].strip().splitlines()[-1]
    return json.loads(completion.response)


def results_read_by(model: ScriptedModel) -> list[str]:
    """What a model read at last as the results of its calls."""
    said = model.requests[-1].messages
    return [message.result.text for message in said if isinstance(message, ResultMessage)]


# ── 1. llm_query() ───────────────────────────────────────────────────────────────────

QUERY = """
result = llm_query(
    "What's the average rating for question 3?",
    tools=[{
        "type": "function",
        "function": {
            "name": "get_stats",
            "description": "Get statistics",
            "parameters": {
                "type": "object",
                "properties": {"q_id": {"type": "integer"}},
                "required": ["q_id"]
            }
        }
    }],
    tool_handler=lambda name, args: json.dumps({"avg": 4.2})
)
"""


@pytest.mark.requirement("rlm.query")
@pytest.mark.parametrize("kind", KINDS)
async def test_a_query_with_tools_runs_the_loop_to_its_answer(kind: str) -> None:
    model = ScriptedModel([call("get_stats", q_id=3)], [text("The average is 4.2.")])

    assert await ran(kind, QUERY, model) == "The average is 4.2."
    assert [offer.name for offer in model.requests[0].tools] == ["get_stats"]
    assert results_read_by(model) == ['{"avg": 4.2}']


@pytest.mark.requirement("rlm.query.needs-handler")
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("code", ['llm_query("x", tools=TOOLS)', 'llm_query_batched(["x"], tools=TOOLS)'])
async def test_tools_without_a_handler_raise(kind: str, code: str) -> None:
    assert await ran(kind, code, Echo()) == "ValueError: tool_handler is required when tools are provided"


BEFORE = """
prompt = "hi"
result = [
    llm_query(prompt),
    llm_query(prompt, model="gpt-4"),
    llm_query(prompt, response_format={"type": "json_object"}),
    llm_query([{"role": "user", "content": prompt}]),
]
"""


@pytest.mark.requirement("rlm.query")
@pytest.mark.parametrize("kind", KINDS)
async def test_what_was_written_before_there_were_tools_works_as_before(kind: str) -> None:
    model = ScriptedModel([text("1")], [text("2")], [text("{}")], [text("4")], name="gpt-4")

    assert await ran(kind, BEFORE, model) == ["1", "2", "{}", "4"]
    assert [request.tools for request in model.requests] == [()] * 4
    assert [request.response_schema for request in model.requests] == [None, None, {"type": "object"}, None]


# ── 2. llm_query_batched() ───────────────────────────────────────────────────────────

BATCHED = """
def handler(tool_name: str, args: dict) -> str:
    # Execute tool, return result as string
    return json.dumps({"of": args["question_id"]})

result = llm_query_batched(
    ["Analyze Q1", "Analyze Q2", "Analyze Q3"],
    tools=TOOLS,
    tool_handler=handler
)
"""


class Analyst:
    """Asks for the statistics of the question in its prompt, and says what it was told."""

    name = "analyst"

    async def stream(self, request: Any) -> Any:
        asked = request.messages[0].text.split()[-1].lower()
        results = [each.result.text for each in request.messages if isinstance(each, ResultMessage)]
        inner = ScriptedModel([text(f"{asked}: {results[0]}")] if results else [call("get_stats", question_id=asked)])
        async for event in inner.stream(request):
            yield event


@pytest.mark.requirement("rlm.batched")
@pytest.mark.parametrize("kind", KINDS)
async def test_each_prompt_of_a_batch_has_its_own_loop_and_its_answer_in_its_place(kind: str) -> None:
    answers = await ran(kind, BATCHED, Analyst())

    assert answers == ['q1: {"of": "q1"}', 'q2: {"of": "q2"}', 'q3: {"of": "q3"}']


# ── Socket Protocol Changes ──────────────────────────────────────────────────────────

REQUEST = {
    "prompt": "What is the average?",
    "model": "gpt-4",
    "depth": 1,
    "response_format": None,
    "tools": [
        {
            "type": "function",
            "function": {
                "name": "get_stats",
                "description": "...",
                "parameters": {"type": "object"},
            },
        }
    ],
    "tool_choice": "auto",
}


async def over_the_socket(model: Model, request: dict[str, Any]) -> Any:
    """What stands in the frame that answers this one."""
    async with LMHandler(Queries({}, model)) as handler:
        assert isinstance(handler.address, tuple)
        reader, writer = await asyncio.open_connection(*handler.address)
        body = json.dumps(request).encode()
        writer.write(len(body).to_bytes(4, "big") + body)
        size = int.from_bytes(await reader.readexactly(4), "big")
        answer = json.loads(await reader.readexactly(size))
        writer.close()
    return answer


@pytest.mark.requirement("rlm.socket")
async def test_the_request_of_the_document_reaches_the_model_and_its_calls_come_back_as_text() -> None:
    model = ScriptedModel([call("get_stats", "call_1")], name="gpt-4")

    answer = await over_the_socket(model, REQUEST)

    assert [offer.name for offer in model.requests[0].tools] == ["get_stats"]
    calls = [{"id": "call_1", "name": "get_stats", "arguments": {}}]
    assert json.loads(answer["chat_completion"]["response"]) == {"tool_calls": calls, "content": None}
    assert answer["error"] is None and answer["chat_completion"]["root_model"] == "gpt-4"


@pytest.mark.requirement("rlm.socket")
@pytest.mark.parametrize(
    ("choice", "reaches"),
    [
        ("auto", "auto"),
        ("none", "none"),
        ({"type": "function", "function": {"name": "get_stats"}}, NamedTool("get_stats")),
    ],
)
async def test_every_tool_choice_of_the_document_reaches_the_model(choice: Any, reaches: Any) -> None:
    model = ScriptedModel([text("4.2")])

    await over_the_socket(model, {**REQUEST, "tool_choice": choice})

    assert model.requests[0].tool_choice == reaches


# ── Error Handling ───────────────────────────────────────────────────────────────────

RAISES = """
def tool_handler(name, args):
    raise RuntimeError("Database connection failed")

result = llm_query("x", tools=TOOLS, tool_handler=tool_handler)
"""


@pytest.mark.requirement("rlm.handler-error")
@pytest.mark.parametrize("kind", KINDS)
async def test_the_model_reads_what_a_handler_raises_and_answers_it(kind: str) -> None:
    model = ScriptedModel([call("get_stats", question_id="q1")], [text("The database is down.")])

    assert await ran(kind, RAISES, model) == "The database is down."
    assert results_read_by(model) == ["Error executing get_stats: Database connection failed"]


@pytest.mark.requirement("rlm.limit")
@pytest.mark.parametrize("kind", KINDS)
async def test_a_model_that_only_calls_tools_is_ended_after_ten(kind: str) -> None:
    model = ScriptedModel(*[[call("get_stats", question_id="q1")]] * 20)
    code = 'result = llm_query("x", tools=TOOLS, tool_handler=lambda name, args: "again")'

    said = await ran(kind, code, model)

    assert said == "__LLM_ERROR__|tool_loop_error|0|Maximum tool iterations (10) exceeded"
    assert len(model.requests) == 10


# ── Integration Example for rlm-service ──────────────────────────────────────────────

# Setup code with tools
SETUP_CODE = f"""
import json

TOOLS = {TOOLS}

# Available in REPL:
# - llm_query(prompt, tools=TOOLS, tool_handler=tool_handler)
# - llm_query_batched(prompts, tools=TOOLS, tool_handler=tool_handler)
"""

# RLM generates REPL code that uses tools:
GENERATED = """
results = []
for q in ["q1", "q2", "q3"]:
    stats = json.loads(tool_handler("get_stats", {"question_id": q}))

    # Qualitative analysis with sub-LLM
    insight = llm_query(
        f"Given these stats: {stats}, provide key insights",
        model="gpt-4o-mini"
    )

    results.append({"question": q, "stats": stats, "insight": insight})

FINAL_VAR("results")
"""


@pytest.mark.requirement("rlm.completion")
@pytest.mark.parametrize("kind", KINDS)
def test_the_service_of_the_document(kind: str) -> None:
    sub = Echo("gpt-4o-mini")
    with RLM(
        backend=Root(repl(GENERATED)),
        setup_code=SETUP_CODE,
        environment=kind,
        other_backends=[sub],
        custom_tools={"get_stats": get_stats},
    ) as rlm:
        # Client sends task
        response = rlm.completion("Analyze responses to questions 1-3 and provide detailed insights")

    results = json.loads(response.response)
    assert [(each["question"], each["stats"]) for each in results] == [*STATS_CACHE.items(), ("q3", {})]
    assert results[2]["insight"] == "GIVEN THESE STATS: {}, PROVIDE KEY INSIGHTS"
    assert len(sub.asked) == 3


@pytest.mark.requirement("rlm.completion")
@pytest.mark.parametrize("kind", KINDS)
async def test_the_tools_of_the_program_answer_a_query_of_its_code_too(kind: str) -> None:
    """`llm_query(prompt, tools=TOOLS, tool_handler=tool_handler)`, "calls back to server"."""
    model = ScriptedModel([call("get_stats", question_id="q2")], [text("3.8")])
    code = 'result = llm_query("x", tools=TOOLS, tool_handler=tool_handler)'

    assert await ran(kind, code, model) == "3.8"
    assert list(map(json.loads, results_read_by(model))) == [STATS_CACHE["q2"]]


# ── Async & Observability ────────────────────────────────────────────────────────────


class Inngest:
    """Keeps what its steps and events are."""

    def __init__(self) -> None:
        self.seen: list[tuple[str, dict[str, Any]]] = []

    async def run(self, name: str, step: Any) -> None:
        self.seen.append((name, step()))

    def send_sync(self, name: str, data: dict[str, Any]) -> None:
        self.seen.append((name, data))


@pytest.mark.requirement("rlm.on-iteration")
@pytest.mark.requirement("rlm.on-request")
async def test_each_turn_and_each_query_is_told_as_json_that_can_be_sent_on() -> None:
    inngest = Inngest()

    async def on_step(iteration: RLMIteration, index: int) -> None:
        await inngest.run(f"Reasoning Step {index}", lambda: iteration.to_dict())

    def log_event(req: LMRequest, res: LMResponse) -> None:
        inngest.send_sync(name="rlm/sub-query", data=res.to_dict())

    root = Root(repl('found = llm_query_batched(["a", "b"])'), repl("FINAL(found)"))
    async with RLM(root, other_backends=[Echo()], on_request=log_event) as rlm:
        result = await rlm.acompletion("a prompt", on_iteration=on_step)

    assert result.response == '["A", "B"]'
    names = [name for name, _ in inngest.seen]
    assert names == ["rlm/sub-query", "rlm/sub-query", "Reasoning Step 1", "Reasoning Step 2"]
    assert sorted(data["chat_completion"]["response"] for _, data in inngest.seen[:2]) == ["A", "B"]
    assert [len(data["code_blocks"]) for _, data in inngest.seen[2:]] == [1, 1]
    json.dumps(inngest.seen)


# ── Performance Considerations ───────────────────────────────────────────────────────

MIXED = """
# GOOD: Use tool (instant, free)
count = tool_handler("count_responses", {"choice": "A"})

# Quantitative: Tools (pre-computed)
stats = get_stats_tool(q_id=1)

# Qualitative: Batched sub-LLM (cheap model)
sample_responses = ["good", "bad"]
themes = llm_query_batched(
    sample_responses,
    model="gpt-4o-mini",
    tools=None  # No tools needed here
)
result = [count, stats, themes]
"""


@pytest.mark.parametrize("kind", KINDS)
async def test_tools_do_what_needs_no_model(kind: str) -> None:
    assert await ran(kind, MIXED, Echo("gpt-4o-mini")) == ["7", STATS_CACHE["q1"], ["GOOD", "BAD"]]


# ── Limitations, which are lifted ────────────────────────────────────────────────────

BEYOND = """
async def stats(name, args):
    return {"avg": 4.2, "of": args["question_id"]}

result = llm_query_batched(
    ["Analyze Q1", "Analyze Q2"],
    tools=[TOOLS, None],
    tool_handler=[stats, None],
    max_iterations=2,
)
"""


class AnalystOrNot(Analyst):
    """Answers at once where it has no tools."""

    async def stream(self, request: Any) -> Any:
        if request.tools:
            async for event in super().stream(request):
                yield event
            return
        async for event in ScriptedModel([text("no tools")]).stream(request):
            yield event


@pytest.mark.requirement("rlm.beyond")
@pytest.mark.parametrize("kind", KINDS)
async def test_handlers_are_async_give_any_json_and_are_of_each_prompt(kind: str) -> None:
    assert await ran(kind, BEYOND, AnalystOrNot()) == ['q1: {"avg": 4.2, "of": "q1"}', "no tools"]


@pytest.mark.requirement("rlm.beyond")
async def test_outside_of_a_repl_the_same_is_a_function_of_the_library() -> None:
    async def stats(name: str, arguments: dict[str, Any]) -> dict[str, Any]:
        return {"avg": 4.2}

    model = ScriptedModel(*[[call("get_stats", question_id="q1")]] * 11, [text("4.2")])

    assert await llm_query("x", model, tools=TOOLS, tool_handler=stats, max_iterations=12) == "4.2"
