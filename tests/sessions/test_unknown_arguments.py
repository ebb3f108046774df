"""An argument that does not exist is refused where it is written, with the name that was probably meant."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from handrail import Session, ToolDefinition, create_llm, tool
from handrail.compat.converser.mcp_servers import MCPClient
from handrail.compat.converser.processor import InvocationsProcessor
from handrail.core.errors import UsageError
from handrail.mcp.client.ensemble import mcp_ensemble
from handrail.node.chat.tool_executor import ToolExecutor
from handrail.sessions.llm import LLM
from handrail.sync import BlockingExecutor
from handrail.testing.model import ScriptedModel


def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


def call(make: Callable[..., Any], *given: Any, **options: Any) -> Any:
    """The same call with names that a type checker would not let through."""
    return make(*given, **options)


REFUSED: dict[str, tuple[Callable[[], Any], str]] = {
    "Session": (lambda: call(Session, ScriptedModel(), aprover=None), "Session has no argument 'aprover'.*'approver'"),
    "Session with an option of the executor": (
        lambda: call(Session, ScriptedModel(), authorizer=None),
        "Session has no argument 'authorizer'.*'authoriser'",
    ),
    "Session by a word of another library": (
        lambda: call(Session, ScriptedModel(), instructions="Be brief."),
        "Session has no argument 'instructions'; write system_prompt=",
    ),
    "Session with the type of its answers": (
        lambda: call(Session, ScriptedModel(), output_type=int),
        r"Session has no argument 'output_type'; write ask\(…, returns=T\)",
    ),
    "LLM": (lambda: call(LLM, ScriptedModel(), temprature=0), "LLM has no argument 'temprature'.*'temperature'"),
    "create_llm by a word of another library": (
        lambda: call(create_llm, "openai:gpt-5", key="k", max_retries=2),
        r"'openai' has no option 'max_retries'; write retry=RetryPolicy\(attempts=…\)",
    ),
    "create_llm with a number for a policy": (
        lambda: call(create_llm, "openai:gpt-5", key="k", retry=0),
        r"retry=0 is not a RetryPolicy; write retry=RetryPolicy\(attempts=…\)",
    ),
    "create_llm": (
        lambda: call(create_llm, "openai:gpt-5", key="k", temprature=0),
        "'openai' has no option 'temprature'; did you mean 'temperature'",
    ),
    "MCPClient": (
        lambda: call(MCPClient, "https://localhost/mcp", aprover=None),
        "MCPClient has no argument 'aprover'.*'approver'",
    ),
    "mcp_ensemble": (
        lambda: call(mcp_ensemble, "docs", "https://localhost/mcp", header={}),
        "mcp_ensemble has no argument 'header'.*'headers'",
    ),
    "InvocationsProcessor": (
        lambda: call(InvocationsProcessor, aprover=None),
        "InvocationsProcessor has no argument 'aprover'.*'approver'",
    ),
    "BlockingExecutor": (
        lambda: call(BlockingExecutor, [add], polcy=None),
        "BlockingExecutor has no argument 'polcy'.*'policy'",
    ),
    "ToolExecutor.with_builtin": (
        lambda: call(ToolExecutor.with_builtin, None, aprover=None),
        "ToolExecutor has no argument 'aprover'.*'approver'",
    ),
    "tool": (lambda: call(tool, add, side_effect=True), "tool has no argument 'side_effect'.*'side_effects'"),
    "the decorator": (lambda: call(tool, timeoute=3), "tool has no argument 'timeoute'.*'timeout'"),
    "Tool.changed": (lambda: call(tool(add).changed, idempotant=True), "changed has no argument.*'idempotent'"),
    "ToolDefinition.from_function": (
        lambda: call(ToolDefinition.from_function, add, descripton=""),
        "ToolDefinition has no argument 'descripton'.*'description'",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_a_misspelt_argument_is_refused_with_the_near_name(name: str) -> None:
    make, message = REFUSED[name]
    with pytest.raises(UsageError, match=message):
        make()


def test_a_name_that_is_near_nothing_is_refused_with_those_that_there_are() -> None:
    with pytest.raises(UsageError, match=r"Session has no argument 'zzz'; there are .*approver.*tools"):
        call(Session, ScriptedModel(), zzz=1)
