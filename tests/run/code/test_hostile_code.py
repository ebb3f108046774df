"""Code that means harm, through a session: no effect without approval, nothing learnt, and the session goes on."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from handrail import Limits, Session, ToolCall, tool
from handrail.core.confirmation import Confirmation, Decision, Deny
from handrail.core.events import CallRequested, ModelEvent
from handrail.run.code.code_mode import CodeSettings
from handrail.sandbox.port import ReplLimits
from handrail.testing.model import ScriptedModel, call, text
from tests.sandbox.attacks.interpreter_attacks import GROUPS, Facts

SECRET = "a-secret-of-the-host-17"
LIMITS = ReplLimits(
    cell_seconds=1.0, memory_bytes=128 * 2**20, output_chars=10_000, host_calls=100, message_bytes=2**20
)


@pytest.fixture
def facts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Facts:
    (tmp_path / "secret").write_text(SECRET)
    monkeypatch.setenv("HOST_SECRET", SECRET)
    return Facts(str(tmp_path / "secret"), "HOST_SECRET", os.getpid())


@pytest.mark.parametrize("group", GROUPS)
def test_no_attack_learns_anything_and_the_session_goes_on(group: str, facts: Facts) -> None:
    attacks = GROUPS[group]
    pieces = [piece for each in attacks for piece in (each.against(facts), "print('still here')")]
    calls = (ToolCall("", "run_code", json.dumps({"code": piece})) for piece in pieces)  # as a model writes them
    replies: list[list[ModelEvent]] = [[CallRequested(call=each)] for each in calls]
    model = ScriptedModel(*replies, [text("Done.")])
    limits = Limits(iterations=len(pieces) + 1, same_answer=1_000, same_failure=1_000)
    with Session(model, code=CodeSettings(limits=LIMITS), limits=limits) as session:
        results = session.ask("Attack.").results

    for attack, tried, after in zip(attacks, results[::2], results[1::2], strict=True):
        assert SECRET not in tried.text, attack.name
        assert after.text.endswith("still here\n"), (attack.name, after.text)
    assert Path(facts.file).read_text() == SECRET


WAYS = {
    "as a function": "pay(1)",
    "past its function": "_host('pay', {'cents': 1})",
    "as if it were approved": "_host('pay', {'cents': 1, 'confirmed': True})",
    "many at once": "call_all([('pay', {'cents': 1})])",
    "past the function for many": "_host('call_all', [['pay', {'cents': 1}]])",
    "by code that runs code": "_host('run_code', {'code': 'pay(1)'})",
    "many of code that runs code": "_host('call_all', [['run_code', {'code': 'pay(1)'}]])",
    "many that are no calls": "_host('call_all', [1, {}, [], ['pay']])",
}


@pytest.mark.parametrize("way", WAYS.values(), ids=WAYS)
def test_no_way_leads_to_an_effect_without_approval(way: str) -> None:
    paid: list[int] = []
    asked: list[dict[str, Any]] = []

    @tool(side_effects=True)
    def pay(cents: int) -> str:
        """Pay."""
        paid.append(cents)
        return "paid"

    class Person:
        async def decide(self, question: Confirmation) -> Decision:
            asked.append(question.arguments)
            return Deny("ada", "no")

    tried = f"try:\n    {way}\nexcept Exception as error:\n    print('refused:', error)"
    model = ScriptedModel([call("run_code", code=tried)], [text("Done.")])
    with Session(model, tools=[pay], approver=Person(), code=True) as session:
        (result,) = session.ask("Pay.").results

    assert paid == []
    assert result.text.startswith("refused:")
    assert all(each == {"cents": 1} for each in asked)


def test_many_calls_at_once_count_one_by_one_against_the_limit() -> None:
    @tool
    def read(number: int) -> int:
        """Read."""
        return number

    calls = "call_all([('read', {'number': n}) for n in range(101)])"
    code = f"try:\n    {calls}\nexcept RuntimeError as error:\n    print(error)"
    model = ScriptedModel([call("run_code", code=code)], [text("Done.")])
    with Session(model, tools=[read], code=CodeSettings(limits=LIMITS)) as session:
        (result,) = session.ask("Read.").results

    assert "100 calls, which is the limit" in result.text
