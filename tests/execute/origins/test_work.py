"""What a call has to do to tell where its values come from: no more after many results than after few."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st

from handrail import Limits, Policy, Session, tool
from handrail.core.calls import ResultLabels
from handrail.execute.origins import private_values, result_records, urls, value_index
from handrail.testing.model import ScriptedModel, call, text
from handrail.tools.result_fields import fields_of, private_parts, scalars_of
from tests.examples import examples

Counts = Counter[str]


@pytest.fixture
def work(monkeypatch: pytest.MonkeyPatch) -> Counts:
    """How often a result was parsed, or a text brought into the form in which it is compared."""
    done: Counts = Counter()

    def count(module: Any, name: str) -> None:
        real: Callable[..., Any] = getattr(module, name)

        def counted(*args: Any, **kwargs: Any) -> Any:
            done[name] += 1
            return real(*args, **kwargs)

        monkeypatch.setattr(module, name, counted)

    count(result_records, "fields_of")
    count(value_index, "scalars_of")
    count(value_index, "_compared")
    count(private_values, "private_parts")
    count(private_values, "letters_of")
    count(private_values, "_tokens")
    return done


@tool(untrusted=True, own=("id",), private=("body",))
def read_mail(id: str) -> dict[str, str]:
    """Read a mail."""
    return {
        "id": id,
        "sender": f"{id}@y.example",
        "body": f"Page {id} needs 4711 pictures, and a customer waits for it.",
    }


@tool
def find_contact(name: str) -> dict[str, str]:
    """Find a contact."""
    return {"name": name, "email": "anna@x.example"}


async def _session(reads: int, sends: int) -> None:
    sent: list[str] = []

    @tool(side_effects=True, sends_out=True, directs=("to",), carries=("subject",))
    def send_mail(to: str, subject: str) -> str:
        """Send a mail."""
        sent.append(to)
        return "sent"

    model = ScriptedModel(
        *([call("read_mail", id=f"m{at}")] for at in range(reads)),
        [call("find_contact", name="Anna")],
        *([call("send_mail", to="anna@x.example", subject=f"Number {at}")] for at in range(sends)),
        [text("Done.")],
    )
    policy = Policy(confirm_side_effects=False)
    limits = Limits(iterations=reads + sends + 2, same_answer=reads + sends)
    tools = [read_mail, find_contact, send_mail]
    async with Session(model, tools=tools, policy=policy, limits=limits) as session:
        await session.ask_async("Read all mails and write to Anna about each.")
    assert len(sent) == sends


async def _work_of_three_calls(work: Counts, reads: int) -> Counts:
    work.clear()
    await _session(reads, 2)
    few = work.copy()
    work.clear()
    await _session(reads, 5)
    return Counter({name: work[name] - few[name] for name in work})


async def test_a_call_does_not_do_more_after_many_results_than_after_few(work: Counts) -> None:
    after_few = await _work_of_three_calls(work, 3)
    assert after_few["letters_of"] and after_few["scalars_of"], "the calls should have been looked at"
    assert await _work_of_three_calls(work, 40) == after_few


async def test_only_results_that_may_hold_a_value_are_taken_apart(work: Counts) -> None:
    await _session(40, 5)
    assert work["fields_of"] == 1, "only the contact has the address"


async def test_a_result_is_looked_at_once(work: Counts) -> None:
    await _session(40, 5)
    assert work["scalars_of"] <= 40 + 1 + 5
    assert work["private_parts"] == 40


NAMES = st.sampled_from(["a", "b", "c", "[]"])
CONTENT = st.recursive(
    st.none() | st.integers() | st.sampled_from(["x", "", '{"a": {"b": "y"}}', '["a", {"b": 1}]']),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=3),
    max_leaves=8,
)
LABELS = st.lists(st.sampled_from(["a", "b", "a.b", "a[].b", "c[]", "[]"]), max_size=3).map(tuple)


@settings(max_examples=examples(300))
@given(content=CONTENT | CONTENT.map(json.dumps), labels=LABELS)
def test_private_parts_are_the_private_fields(content: Any, labels: tuple[str, ...]) -> None:
    declared = ResultLabels(private=labels)
    fields = list(fields_of(content, declared, untrusted=False))
    assert list(private_parts(content, declared)) == [(each.path, each.value) for each in fields if each.private]
    assert sorted(map(repr, scalars_of(content))) == sorted(repr(each.value) for each in fields)


SIGNS = st.text(alphabet="aEx1@:/. w-+é²\u212a", max_size=24)


@settings(max_examples=examples(300))
@given(content=SIGNS | st.sampled_from(["www.x", "DE12 1234 1234 1234", "x.com", "a@b.c", "ftp://x", "a://²"]))
def test_no_address_is_missed_by_the_quick_look(content: str) -> None:
    if urls._ADDRESS.search(content):
        assert urls._MARK.search(content)


@settings(max_examples=examples(300))
@given(text=st.text(alphabet="abF01 :x\t\n", max_size=40))
def test_no_hexadecimal_text_is_missed_by_the_quick_look(text: str) -> None:
    if private_values._HEX.search(text):
        assert "0" * 8 in text.translate(private_values._HEX_DIGITS)


@settings(max_examples=examples(300))
@given(text=st.text(alphabet="ab1 ,.!@-+é²\n", max_size=24))
def test_no_token_is_missed_by_the_quick_look(text: str) -> None:
    every = {each.rstrip(".,") for each in private_values._TOKEN.findall(" ".join(text.casefold().split()))}
    assert {each for each in every if len(each) >= 3} <= private_values._tokens(text)
