"""`llm_query` and `llm_query_batched` for programs without a REPL, with the signatures of their document."""

from __future__ import annotations

import inspect
import subprocess
import sys
from typing import Any

import pytest
from hypothesis import given, strategies as st

from handrail.core.errors import LimitExceeded, UsageError
from handrail.core.messages import Usage
from handrail.rlm import Queries, Spending, llm_query, llm_query_batched
from handrail.rlm.query import sentinel
from handrail.rlm.values import RLMChatCompletion, UsageSummary
from handrail.sessions.llm import LLM
from handrail.testing.clock import FixedClock
from handrail.testing.journal import MemoryJournal
from handrail.testing.model import ScriptedModel, call, text
from tests.rlm.test_queries import STATS, Echo


@pytest.mark.requirement("rlm.query")
@pytest.mark.requirement("rlm.batched")
def test_the_signatures_are_those_of_the_document() -> None:
    one = list(inspect.signature(llm_query).parameters)
    many = list(inspect.signature(llm_query_batched).parameters)

    assert one[:5] == ["prompt", "model", "response_format", "tools", "tool_handler"]
    assert many[:5] == ["prompts", "model", "response_formats", "tools", "tool_handler"]


@pytest.mark.requirement("rlm.query")
async def test_a_program_asks_a_model_that_it_has_made() -> None:
    model = ScriptedModel([call("get_stats", q_id=3)], [text("4.2")])

    answer = await llm_query(
        "average?", model, tools=[STATS], tool_handler=lambda name, arguments: {"avg": 4.2}, journal=MemoryJournal()
    )

    assert answer == "4.2"


async def test_the_settings_of_a_model_go_with_it() -> None:
    model = ScriptedModel([text("hi")])

    await llm_query("?", LLM(model, temperature=0.5))

    assert model.requests[0].temperature == 0.5


@pytest.mark.requirement("rlm.batched")
async def test_a_program_asks_about_many_prompts() -> None:
    assert await llm_query_batched(["a", "b"], Echo()) == ["A", "B"]


async def test_a_program_asks_by_name_through_queries_of_its_own() -> None:
    queries = Queries({"small": Echo(name="s")}, Echo())

    assert await llm_query("a", "small", queries=queries) == "A"
    assert (await llm_query("a", "large", queries=queries)).startswith("__LLM_ERROR__|unknown_model|0|")
    assert queries.spend.summary().total_calls == 1


@pytest.mark.requirement("rlm.query.needs-handler")
async def test_tools_need_a_handler() -> None:
    for ask in (lambda: llm_query("?", Echo(), tools=[STATS]), lambda: llm_query_batched(["?"], Echo(), tools=[STATS])):
        with pytest.raises(ValueError, match=r"^tool_handler is required when tools are provided$"):
            await ask()


@pytest.mark.parametrize(
    ("given", "error"),
    [
        ({}, ValueError),
        ({"model": "no-such-service:x"}, UsageError),
        ({"model": Echo(), "queries": Queries({}, Echo())}, ValueError),
    ],
    ids=["no model", "unknown service", "both"],
)
async def test_which_model_is_asked_must_be_clear(given: dict[str, Any], error: type[Exception]) -> None:
    with pytest.raises(error):
        await llm_query("?", **given)


def test_the_names_are_loaded_when_they_are_used() -> None:
    code = "import sys, handrail.rlm as r; assert 'handrail.rlm.query.queries' not in sys.modules; r.llm_query; dir(r)"

    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)


# ── errors as text ───────────────────────────────────────────────────────────────────


@given(st.text(alphabet=st.characters(exclude_characters="|"), max_size=20), st.integers(0, 999), st.text(max_size=50))
def test_an_error_that_is_text_is_read_as_it_was_written(type: str, status: int, message: str) -> None:
    made = sentinel.make(type, message, status)

    assert sentinel.parse(made) == (type, status, message)


@given(st.text(max_size=40))
def test_only_the_text_of_an_error_is_one(words: str) -> None:
    for said in (words, f"x__LLM_ERROR__|{words}", f"__LLM_ERROR__|{words}"):
        found = sentinel.parse(said)
        assert found is None or said == f"__LLM_ERROR__|{found.type}|{said.split('|')[2]}|{found.message}"


def test_a_pipe_in_the_kind_does_not_move_the_rest() -> None:
    assert sentinel.parse(sentinel.make("a|b", "c|d")) == ("a/b", 0, "c|d")


# ── spending ─────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("limits", "usage", "said"),
    [
        ({"max_cost": 1.0}, Usage(cost=1.0), "1 US dollars"),
        ({"max_tokens": 10}, Usage(input_tokens=4, output_tokens=6), "10 tokens"),
    ],
    ids=["cost", "tokens"],
)
def test_spending_says_when_nothing_is_left(limits: dict[str, Any], usage: Usage, said: str) -> None:
    spend = Spending(**limits)
    spend.check()
    spend.add("m", usage)

    with pytest.raises(LimitExceeded, match=said):
        spend.check()


def test_a_budget_that_cannot_hold_is_said_once(caplog: pytest.LogCaptureFixture) -> None:
    spend = Spending(max_cost=1.0)
    below = spend.below()
    for _ in range(2):
        below.add("unpriced", Usage(output_tokens=5))
        below.add("priced", Usage(output_tokens=5, cost=0.1))
    Spending(max_tokens=100).add("unpriced", Usage(output_tokens=5))

    assert [record.getMessage() for record in caplog.records] == [
        "the price of 'unpriced' is not known, so no budget in dollars ends what it says; limit tokens"
    ]


def test_a_deadline_ends_spending() -> None:
    clock = FixedClock()
    spend = Spending(deadline=clock.monotonic() + 5, clock=clock)
    spend.check()
    clock.advance(5)

    with pytest.raises(LimitExceeded, match="5 seconds"):
        spend.check()


def test_an_answer_from_the_record_is_counted_once() -> None:
    spend = Spending()
    completion = RLMChatCompletion(
        root_model="m", prompt="?", response="!", run="r", usage_summary=UsageSummary.of("m", Usage(input_tokens=3))
    )

    spend.heard(completion)
    spend.heard(completion)

    assert (spend.tokens, spend.calls) == (3, 1)


def test_a_child_counts_its_own_and_is_held_to_what_is_left_above() -> None:
    top = Spending(max_tokens=10)
    child, other = top.below(), top.below()
    child.add("m", Usage(input_tokens=4))
    other.heard(
        RLMChatCompletion(
            root_model="m", prompt="?", response="!", run="r", usage_summary=UsageSummary.of("m", Usage(input_tokens=5))
        )
    )

    with child.asking("q"):
        assert (top.in_flight, child.in_flight, other.in_flight) == (1, 1, 0)
    assert (top.tokens, child.tokens, other.tokens, top.queries, other.queries) == (9, 4, 5, 1, 0)
    assert child.summary().total_input_tokens == 4
    child.check()
    top.add("m", Usage(output_tokens=1))
    with pytest.raises(LimitExceeded, match="10 tokens"):
        child.check()


async def test_queries_that_are_asked_for_ever_keep_nothing_of_each() -> None:
    queries = Queries({}, Echo(), journal=MemoryJournal())
    for number in range(3):
        await queries.query(f"q{number}")

    kept = [each for each in vars(queries.spend).values() if isinstance(each, set | list | dict)]
    assert kept and not any(kept)


@pytest.mark.parametrize("limits", [{"max_cost": 0.0}, {"max_tokens": -1}])
def test_a_budget_of_nothing_is_a_mistake(limits: dict[str, Any]) -> None:
    with pytest.raises(UsageError, match="more than 0"):
        Spending(**limits)
