"""Every code block of rlm-tools-api.md over `handrail.compat.rlm`, run as it stands or listed with the reason.

Code of the REPL runs in a REPL, written there by a scripted root model. Models are scripts, since the document's
services are not there. The one import line is changed; `import json`, which the document leaves out, is given.
"""

from __future__ import annotations

import ast
import inspect
import json
from types import SimpleNamespace
from typing import Any

import pytest

from handrail.compat import rlm as compat
from handrail.compat.rlm import RLM, LMRequest, LMResponse, RLMIteration, service
from handrail.core.messages import ResultMessage
from handrail.core.ports import Model
from handrail.rlm.repl.prelude import SOURCE
from handrail.testing.model import ScriptedModel, call, text
from tests.rlm.root_models import Echo, Root, repl
from tests.seeds.document_samples import Coverage, run

DOCUMENT = Coverage(
    "rlm",
    listed={
        6: "JSON with comments and elided parts; tests/seeds/test_rlm.py sends this request over the socket",
        7: "JSON with elided parts; tests/seeds/test_rlm.py reads this response off the socket",
        8: "a drawing of the loop, in words",
        10: "a message, in words; test_the_model_reads_what_the_handler_of_the_document_raises compares it",
        19: "a command line for the document's own test suite",
        20: "elided: the definition of the tool is {...}, which no model can be offered",
    },
)
KINDS = ("monty", "os")
"""What code sees of `process` is what it sees of `os`."""

STATS = [{
    "type": "function",
    "function": {
        "name": "get_stats",
        "description": "Get statistics",
        "parameters": {"type": "object", "properties": {"question_id": {"type": "string"}}},
    },
}]  # fmt: skip


def test_every_block_of_the_document_is_run_or_listed() -> None:
    assert len(DOCUMENT.blocks) == 22
    assert DOCUMENT.problems() == []


# ── signatures ───────────────────────────────────────────────────────────────────────


def parameters(listing: str) -> list[str]:
    """The names of the parameters of a signature that stands without a body."""
    (node,) = ast.parse(f"{listing}: ...").body
    assert isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    return [each.arg for each in node.args.args]


@DOCUMENT.runs(1, 4)
@pytest.mark.requirement("rlm.query", "rlm.batched")
@pytest.mark.parametrize("number", [1, 4])
def test_the_functions_of_the_repl_have_the_documents_parameters_in_its_order(number: int) -> None:
    listing = DOCUMENT.code(number)
    name = listing.partition("(")[0].removeprefix("def ")
    (ours,) = [each for each in ast.parse(SOURCE).body if isinstance(each, ast.FunctionDef) and each.name == name]

    assert [each.arg for each in ours.args.args] == parameters(listing)


@DOCUMENT.runs(13)
@pytest.mark.requirement("rlm.on-iteration")
def test_acompletion_has_the_documents_parameters() -> None:
    assert list(inspect.signature(RLM.acompletion).parameters) == parameters(DOCUMENT.code(13))


@DOCUMENT.runs(15)
@pytest.mark.requirement("rlm.on-request")
def test_an_rlm_takes_on_request() -> None:
    listing = DOCUMENT.code(15).replace("...", "self")
    assert parameters(listing) == ["self", "on_request"]
    RLM(Root(), on_request=lambda request, response: None).close()


# ── code of the REPL ─────────────────────────────────────────────────────────────────


async def in_repl(
    kind: str, code: str, model: Model, wanted: str = "result", setup_code: str = "", **options: Any
) -> Any:
    """What code leaves in a variable of the REPL."""
    root = Root(repl(f"{code}\n"), repl(f"FINAL(json.dumps({wanted}))"))
    setup = f"import json\n{setup_code}"
    async with RLM(root, environment=kind, setup_code=setup, other_backends=[model], **options) as rlm:
        completion = await rlm.acompletion("a context", "a question")
    assert "ended by an exception" not in root.read(1), root.read(1)
    return json.loads(completion.response)


def results_read_by(model: ScriptedModel) -> list[str]:
    return [message.result.text for message in model.requests[-1].messages if isinstance(message, ResultMessage)]


@DOCUMENT.runs(3)
@pytest.mark.requirement("rlm.query")
@pytest.mark.parametrize("kind", KINDS)
async def test_a_query_with_tools(kind: str) -> None:
    model = ScriptedModel([call("get_stats", q_id=3)], [text("The average is 4.2.")])

    assert await in_repl(kind, DOCUMENT.code(3), model) == "The average is 4.2."
    assert results_read_by(model) == ['{"avg": 4.2}']


@DOCUMENT.runs(5)
@pytest.mark.requirement("rlm.batched")
@pytest.mark.parametrize("kind", KINDS)
async def test_a_batch_of_queries(kind: str) -> None:
    given = f"TOOLS = {STATS}\ndef handler(name, args):\n    return 'never'\n"

    answers = await in_repl(kind, DOCUMENT.code(5), Echo(), "results", given)

    assert answers == ["ANALYZE Q1", "ANALYZE Q2", "ANALYZE Q3"]


@DOCUMENT.runs(2)
@pytest.mark.parametrize("kind", KINDS)
async def test_the_signature_of_a_handler_is_that_of_a_function_in_the_repl(kind: str) -> None:
    """It has no body but its words, so a model reads that it returned nothing."""
    model = ScriptedModel([call("get_stats", question_id="q1")], [text("Nothing.")])
    code = f'{DOCUMENT.code(2)}\nresult = llm_query("x", tools=TOOLS, tool_handler=tool_handler)'

    assert await in_repl(kind, code, model, setup_code=f"TOOLS = {STATS}") == "Nothing."
    assert results_read_by(model) == ["null"]


@DOCUMENT.runs(9)
@pytest.mark.requirement("rlm.handler-error")
@pytest.mark.parametrize("kind", KINDS)
async def test_the_model_reads_what_the_handler_of_the_document_raises(kind: str) -> None:
    model = ScriptedModel([call("get_stats", question_id="q1")], [text("The database is down.")])
    code = f'{DOCUMENT.code(9)}\nresult = llm_query("x", tools=TOOLS, tool_handler=tool_handler)'

    assert await in_repl(kind, code, model, setup_code=f"TOOLS = {STATS}") == "The database is down."
    assert results_read_by(model) == [json.loads(DOCUMENT.code(10))]


@DOCUMENT.runs(17, 18)
@pytest.mark.parametrize("kind", KINDS)
async def test_tools_do_what_needs_no_model(kind: str) -> None:
    """Plain functions among the custom tools are called at once: they count as reads."""

    def count_responses(choice: str) -> int:
        return {"A": 7}[choice]

    def get_stats_tool(q_id: int) -> dict[str, int]:
        return {"question": q_id, "avg": 4}

    tools = {"count_responses": count_responses, "get_stats_tool": get_stats_tool}
    code = f"data = 'A B A'\nsample_responses = ['good', 'bad']\n{DOCUMENT.code(17)}\n{DOCUMENT.code(18)}"
    found = await in_repl(kind, code, Echo("gpt-4o-mini"), "[count, stats, themes]", custom_tools=tools)

    assert found == ["7", {"question": 3, "avg": 4}, ["GOOD", "BAD"]]


@DOCUMENT.runs(21, 22)
@pytest.mark.requirement("rlm.query")
@pytest.mark.parametrize("kind", KINDS)
async def test_the_steps_of_the_migration_guide(kind: str) -> None:
    """`TOOLS`, which the document elides in its step 1, is given."""
    model = ScriptedModel([call("get_stats", question_id="q1")], [text("4.2")])
    given = f"TOOLS = {STATS}\nprompt = 'What is the average?'\nresult = {{'avg': 4.2}}\n"

    assert await in_repl(kind, f"{DOCUMENT.code(21)}\n{DOCUMENT.code(22)}", model, setup_code=given) == "4.2"
    assert results_read_by(model) == ['{"avg": 4.2}']


# ── Integration Example for rlm-service ──────────────────────────────────────────────


def with_our_import(code: str) -> str:
    assert "from rlm import RLM" in code
    return code.replace("from rlm import RLM", "from handrail.compat.rlm import RLM")


def generated(client: str) -> str:
    """The code that, by the client's block, the model writes: a string that stands there as a statement."""
    (written,) = [
        each.value.value
        for each in ast.parse(client).body
        if isinstance(each, ast.Expr) and isinstance(each.value, ast.Constant)
    ]
    assert isinstance(written, str)
    return written


@DOCUMENT.runs(11, 12)
@pytest.mark.requirement("rlm.completion")
async def test_the_server_and_the_client_of_the_document_run_with_its_literal_setup_code() -> None:
    client = DOCUMENT.code(12)
    sub, server = Echo("gpt-4o-mini"), dict[str, Any]()

    def calls_back(name: str, arguments: dict[str, Any]) -> Any:
        return server["stats_handler"](name, arguments)

    root = Root(repl(generated(client)))
    with service({"openai": root}, other_backends=[sub], tool_handler=calls_back):
        server = await run(with_our_import(DOCUMENT.code(11)), {"json": json})
    for stats in server["STATS_CACHE"].values():
        stats["distribution"] = {"5": 1}  # the document elides it: {...}, which is no JSON
    ran = await run(client, {"rlm": server["rlm"]})
    server["rlm"].close()

    assert "def tool_handler(name, args):" in server["SETUP_CODE"]
    results = json.loads(ran["response"].response)
    assert [(each["question"], each["stats"]) for each in results] == [*server["STATS_CACHE"].items(), ("q3", {})]
    assert results[2]["insight"] == "GIVEN THESE STATS: {}, PROVIDE KEY INSIGHTS"
    assert len(sub.asked) == 3


@pytest.mark.requirement("rlm.completion")
@pytest.mark.parametrize("kind", KINDS)
async def test_the_empty_handler_of_the_setup_code_does_not_hide_the_tools_of_the_program(kind: str) -> None:
    """The literal setup code, and tools as `custom_tools` instead of a handler."""
    server = DOCUMENT.code(11)
    with service({"openai": Root()}):
        setup_code = (await run(with_our_import(server), {"json": json}))["SETUP_CODE"]

    def get_stats(question_id: str) -> dict[str, Any]:
        return {"of": question_id}

    code = 'result = tool_handler("get_stats", {"question_id": "q1"})'
    found = await in_repl(kind, code, Echo(), setup_code=setup_code, custom_tools={"get_stats": get_stats})

    assert json.loads(found) == {"of": "q1"}


@pytest.mark.parametrize("kind", KINDS)
async def test_a_handler_with_a_body_in_the_setup_code_stays(kind: str) -> None:
    setup_code = "def tool_handler(name, args):\n    return 'mine'"

    assert await in_repl(kind, 'result = tool_handler("x", {})', Echo(), setup_code=setup_code) == "mine"


# ── Async & Observability ────────────────────────────────────────────────────────────


@DOCUMENT.runs(14)
@pytest.mark.requirement("rlm.on-iteration")
async def test_each_turn_is_a_step() -> None:
    steps: list[tuple[str, Any]] = []

    async def step(name: str, work: Any) -> None:
        steps.append((name, work()))

    rlm = RLM(Root(repl("x = 1"), repl("FINAL(x)")))
    given = {"rlm": rlm, "prompt": "a task", "ctx": SimpleNamespace(step=SimpleNamespace(run=step))}
    ran = await run(DOCUMENT.code(14), given)
    await rlm.aclose()

    assert ran["result"].response == "1"
    assert [name for name, _ in steps] == ["Reasoning Step 1", "Reasoning Step 2"]
    assert [len(told["code_blocks"]) for _, told in steps] == [1, 1]
    json.dumps(steps)


@DOCUMENT.runs(16)
@pytest.mark.requirement("rlm.on-request")
async def test_each_query_is_an_event() -> None:
    events: list[Any] = []
    inngest = SimpleNamespace(Event=lambda name, data: (name, data))
    given = {"inngest": inngest, "inngest_client": SimpleNamespace(send_sync=events.append), "RLM": RLM}

    with service({"openai": Root(repl('FINAL(llm_query("a"))'))}, other_backends=[Echo()]):
        rlm = (await run(DOCUMENT.code(16), given))["rlm"]
    completion = await rlm.acompletion("a task")
    await rlm.aclose()

    assert completion.response == "A"
    assert [name for name, _ in events] == ["rlm/sub-query"]
    assert events[0][1]["chat_completion"]["response"] == "A"


def test_the_module_offers_the_types_that_the_document_names() -> None:
    assert {LMRequest, LMResponse, RLMIteration} <= {getattr(compat, name) for name in compat.__all__}
