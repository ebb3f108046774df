"""A configuration as an `RLM`: who writes the code, whom it asks, and which tools it may reach."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from handrail.app.app import AppAdditions
from handrail.app.rlm import open_rlm, root_model_name
from handrail.config.load import load_config
from handrail.config.values import Config
from handrail.core.errors import UsageError
from handrail.journal.reader import JournalReader

TOOLS = '''
from handrail import tool

@tool(side_effects=False)
def look() -> str:
    """Look."""
    return "seen"

@tool(side_effects=False)
def peek() -> str:
    """Peek."""
    return "peeked"
'''
CONFIG = """
default_model = "root"
ensembles = ["box.toml"]

[models.root]
provider = "scripted"
model = "root.json"

[models.narrow]
provider = "scripted"
model = "root.json"
tools = ["look"]

[models.small]
provider = "local"

[mcp.never]
command = ["handrail-no-such-server"]
required = true
"""
BOX = '[ensemble]\nname = "box"\n[[invokers]]\nname = "look"\npython = "rlm_app_tools:look"\n'
Written = Callable[..., Config]


@pytest.fixture
def written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Written]:
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)  # so that what is added to the path is taken off again
    (tmp_path / "rlm_app_tools.py").write_text(TOOLS)
    (tmp_path / "box.toml").write_text(BOX)

    def write(*lines: str, config: str = CONFIG) -> Config:
        code = "\n".join(("```repl", *lines, "```"))
        (tmp_path / "root.json").write_text(json.dumps({"reply": [{"text": code}]}))
        (tmp_path / "handrail.toml").write_text(config)
        return load_config(tmp_path / "handrail.toml")

    yield write
    sys.modules.pop("rlm_app_tools", None)


def tried(name: str) -> tuple[str, ...]:
    return ("try:", f"    found = {name}()", "except NameError:", '    found = "none"', "FINAL(found)")


async def answer(config: Config, *tools: str, model: str | None = None) -> str:
    journal = Path("journal.db")
    async with open_rlm(config, journal, model=model, wanted=AppAdditions(tools=tools)) as rlm:
        return (await rlm.acompletion("words", "?")).response


async def test_code_reaches_the_tools_that_are_wanted_and_no_server_is_started_for_it(written: Written) -> None:
    config = written(*tried("look"))

    assert await answer(config) == "none"
    assert await answer(config, "rlm_app_tools.py") == "seen"


async def test_code_reaches_the_configured_tools_that_the_table_names_and_no_others(written: Written) -> None:
    without = CONFIG.partition("[mcp.never]")[0]

    assert await answer(written(*tried("look"), config=f'{without}[rlm]\ntools = ["box:*"]\n')) == "seen"
    assert await answer(written(*tried("look"), config=f'{without}[rlm]\ntools = ["other"]\n')) == "none"
    assert await answer(written(*tried("look"), config=f"{without}[rlm]\ntools = []\n")) == "none"


async def test_tools_that_are_not_valid_for_the_model_that_writes_the_code_are_not_there(written: Written) -> None:
    config = written(*tried("peek"))

    assert await answer(config, "rlm_app_tools.py") == "peeked"
    assert await answer(config, "rlm_app_tools.py", model="narrow") == "none"


def test_the_embedded_model_has_a_plan_write_the_code_for_it(written: Written) -> None:
    config = written()

    assert [root_model_name(config, name) for name in (None, "small", "local", "plan")] == [
        "root",
        "plan",
        "plan",
        "plan",
    ]
    assert root_model_name(Config()) == "plan"


async def test_a_run_that_is_done_stays_done_when_somebody_takes_it_up_with_another_context(written: Written) -> None:
    config, journal = written('FINAL("done")'), Path("journal.db")
    async with open_rlm(config, journal, run="run_1") as rlm:
        await rlm.acompletion("words", "?")

    async with open_rlm(config, journal) as rlm:
        with pytest.raises(UsageError, match="another context"):
            await rlm.aresume("run_1", "other words", "?")

    with JournalReader(journal) as reader:
        assert [(each.run, each.finished) for each in reader.runs()] == [("run_1", "done")]
