"""Tools from files, called as everybody calls them."""

from __future__ import annotations

from pathlib import Path

import pytest

from handrail.core.calls import ToolCall
from handrail.execute.executor import Executor
from handrail.tools.files.load import load_ensemble
from handrail.tools.registry import registered
from tests.tools.files.tool_file_calls import written

TOML = """
    [ensemble]
    name = "text"

    [defaults]
    timeout = 20

    [[invokers]]
    name = "count"
    side_effects = false
    command = { run = ["wc", "-c"], stdin = "{text}" }
    arguments = { type = "object", required = ["text"], properties = { text = { type = "string" } } }

    [[invokers]]
    name = "slow"
    timeout = 0.05
    side_effects = false
    command = ["sleep", "1000"]

    [[invokers]]
    name = "erase"
    command = ["rm", "everything"]

    [[invokers]]
    name = "later"
    """


@pytest.mark.requirement("converser.toml", "converser.ensemble")
async def test_each_call_gets_the_answer_that_its_file_leads_to(tmp_path: Path) -> None:
    executor = Executor(registered(load_ensemble(written(tmp_path, "text.toml", TOML))))
    calls = [
        ToolCall("1", "text:count", {"text": "four"}),
        ToolCall("2", "count", {"text": 4}),
        ToolCall("3", "slow"),
        ToolCall("4", "erase"),
        ToolCall("5", "later"),
    ]
    results = await executor.invoke_all(calls)
    assert [result.outcome for result in results] == [
        "ok",
        "invalid_arguments",
        "timeout",
        "needs_confirmation",
        "failed",
    ]
    assert results[0].text.strip() == "4"
    assert not results[2].still_running
    assert results[4].error is not None
    assert results[4].error.code == "not_implemented"
