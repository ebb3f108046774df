"""The six settings of HearthNet: their defaults, and that each changes what happens, from a file and from code."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from handrail import Conversation, ToolResult
from handrail.app import open_app
from handrail.config.load import load_config
from handrail.config.tools import tools_of
from handrail.config.values import Config, LlmSettings
from handrail.core.context import Context
from handrail.core.errors import UsageError
from handrail.core.events import ModelEvent
from handrail.core.messages import ResultMessage
from handrail.sessions.llm import LLM
from handrail.testing.model import ScriptedModel, call, text

TOOLS = '''
import asyncio

from handrail import tool

running = peak = 0


@tool(side_effects=False, share=False)
async def look(n: int) -> str:
    """Look."""
    global running, peak
    running += 1
    peak = max(peak, running)
    for _ in range(20):
        await asyncio.sleep(0)
    running -= 1
    return f"looked, at most {peak} at once"


@tool(side_effects=False)
async def wait() -> None:
    """Wait for ever."""
    await asyncio.Event().wait()


@tool(side_effects=True)
async def pay() -> str:
    """Pay."""
    return "paid"
'''
ENSEMBLE = '[ensemble]\nname = "six"\n' + "".join(
    f'[[invokers]]\nname = "{name}"\npython = "six_tools:{name}"\n' for name in ("look", "wait", "pay")
)

Make = Callable[[dict[str, Any]], Config]


@pytest.fixture(params=["file", "code"])
def make(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Make]:
    """A configuration with these settings, by both ways."""
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "six_tools.py").write_text(TOOLS)
    (tmp_path / "six.toml").write_text(ENSEMBLE)

    def from_file(settings: dict[str, Any]) -> Config:
        spelt = "".join(f"{key} = {_toml(value)}\n" for key, value in settings.items())
        (tmp_path / "handrail.toml").write_text(f'ensembles = ["six.toml"]\n[llm]\n{spelt}')
        return load_config(tmp_path / "handrail.toml")

    def from_code(settings: dict[str, Any]) -> Config:
        return Config(llm=LlmSettings(**settings), ensembles=(tmp_path / "six.toml",))

    yield {"file": from_file, "code": from_code}[request.param]
    sys.modules.pop("six_tools", None)


def _toml(value: Any) -> str:
    return str(list(value)) if isinstance(value, tuple) else str(value).lower()


async def answered(config: Config, journal: Path, *replies: list[ModelEvent]) -> tuple[list[ToolResult], ScriptedModel]:
    model = ScriptedModel(*replies)
    async with open_app(config, journal) as app:
        ended = await app.runner(LLM(model)).run(Conversation().say("go"), Context(run="run"))
    return [message.result for message in ended.messages if isinstance(message, ResultMessage)], model


@pytest.mark.requirement("hearthnet.config")
def test_the_six_settings_have_the_documented_defaults() -> None:
    assert LlmSettings() == LlmSettings(
        tools_enabled=True,
        tools_max_iterations=6,
        tools_per_tool_timeout_seconds=30,
        tools_max_parallel=4,
        tools_default_set=("search_corpus", "list_corpora", "translate", "list_marketplace"),
        tools_require_confirmation_for_side_effects=True,
    )
    policy, limits = Config().policy, Config().limits
    assert (policy.timeout, policy.concurrency, policy.confirm_side_effects, limits.iterations) == (30, 4, True, 6)


@pytest.mark.requirement("hearthnet.config")
async def test_tools_can_be_switched_off(make: Make, tmp_path: Path) -> None:
    _, on = await answered(make({"tools_enabled": True}), tmp_path / "on.db", [text("hello")])
    _, off = await answered(make({"tools_enabled": False}), tmp_path / "off.db", [text("hello")])

    assert [offer.name for offer in on.requests[0].tools] == ["look", "wait", "pay", "read_output"]
    assert off.requests[0].tools == ()


@pytest.mark.requirement("hearthnet.config")
async def test_after_so_many_iterations_the_model_is_asked_for_its_answer(make: Make, tmp_path: Path) -> None:
    replies = [[call("look", n=n)] for n in range(2)]

    results, model = await answered(make({"tools_max_iterations": 2}), tmp_path / "j.db", *replies, [text("enough")])

    assert len(results) == 2
    assert [request.tool_choice for request in model.requests] == ["auto", "auto", "none"]


@pytest.mark.requirement("hearthnet.config")
async def test_a_tool_has_so_many_seconds(make: Make, tmp_path: Path) -> None:
    config = make({"tools_per_tool_timeout_seconds": 0.05})

    (result,), _ = await answered(config, tmp_path / "j.db", [call("wait")], [text("too long")])

    assert result.outcome == "timeout"


@pytest.mark.requirement("hearthnet.config")
@pytest.mark.parametrize("most", [1, 3])
async def test_so_many_calls_run_at_once(make: Make, most: int, tmp_path: Path) -> None:
    replies = [call("look", n=n) for n in range(6)]

    results, _ = await answered(make({"tools_max_parallel": most}), tmp_path / "j.db", replies, [text("done")])

    assert results[-1].content == f"looked, at most {most} at once"


@pytest.mark.requirement("hearthnet.config")
async def test_the_default_set_is_what_is_offered_and_a_wrong_name_is_refused(make: Make, tmp_path: Path) -> None:
    chosen = make({"tools_default_set": ("pay", "six:look", "translate")})
    wrong = make({"tools_default_set": ("lok",)})

    _, model = await answered(chosen, tmp_path / "j.db", [text("hello")])

    assert [offer.name for offer in model.requests[0].tools] == ["pay", "look", "read_output"]
    with pytest.raises(UsageError, match=r"no tool 'lok' in the ensembles; did you mean 'look'\?"):
        await answered(wrong, tmp_path / "j.db", [text("hello")])


@pytest.mark.requirement("hearthnet.config")
@pytest.mark.parametrize(("required", "outcome"), [(True, "needs_confirmation"), (False, "ok")])
async def test_side_effects_need_approval_or_not(make: Make, required: bool, outcome: str, tmp_path: Path) -> None:
    config = make({"tools_require_confirmation_for_side_effects": required})

    (result,), _ = await answered(config, tmp_path / "j.db", [call("pay")], [text("well")])

    assert result.outcome == outcome


def test_tools_that_are_asked_for_while_switched_off_are_refused() -> None:
    with pytest.raises(UsageError, match="tools are switched off"):
        tools_of(Config(llm=LlmSettings(tools_enabled=False)), ("os:sep",))
