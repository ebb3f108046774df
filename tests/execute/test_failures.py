"""What the author of a tool gets when it fails: one entry in the log with the traceback, and the exception itself."""

from __future__ import annotations

import logging
import traceback

import pytest

from handrail import Context, Executor, Secret, Session, ToolCall, ToolError, tool
from handrail.core.errors import ToolFailed
from handrail.testing.model import ScriptedModel, call
from handrail.tools.tool import Retry
from tests.execute.isolation.process_tools import raise_that

LOG = "handrail.execute.attempt"


def unlucky(number: int, password: Secret) -> None:
    """Fail, and name everything in it."""
    raise ValueError(f"no luck with {number} and {password}")


def logged(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.name == LOG]


async def test_an_exception_is_logged_once_with_its_traceback_tool_and_arguments_and_without_secrets(
    caplog: pytest.LogCaptureFixture,
) -> None:
    arguments = {"number": 13, "password": "correct horse"}
    async with Executor([tool(unlucky, retry=Retry(attempts=2, first_delay=0))]) as executor:
        await executor.invoke(ToolCall("1", "unlucky", arguments))

    (entry,) = logged(caplog)
    assert "tool 'unlucky' failed" in entry and '"number": 13' in entry
    assert "Traceback" in entry and "in unlucky" in entry and "ValueError: no luck with 13" in entry
    assert "correct horse" not in entry


async def test_an_exception_in_a_worker_process_is_logged_with_the_traceback_from_there(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with Executor([raise_that]) as executor:
        await executor.invoke(ToolCall("1", "raise_that", {"kind": "RuntimeError"}))

    (entry,) = logged(caplog)
    assert "Traceback" in entry and "RuntimeError: kaput" in entry


async def test_an_exception_of_megabytes_that_is_no_unicode_is_logged_in_bounds(
    caplog: pytest.LogCaptureFixture,
) -> None:
    @tool
    def shout(words: list[str]) -> None:
        raise ValueError("x" * 5_000_000 + "\ud800")

    async with Executor([shout]) as executor:
        await executor.invoke(ToolCall("1", "shout", {"words": ["hello"] * 10_000}))

    (entry,) = logged(caplog)
    assert len(entry.encode()) < 25_000
    assert "in shout" in entry and entry.endswith("x\\ud800\n")


async def test_a_tool_error_is_an_answer_and_is_not_logged(caplog: pytest.LogCaptureFixture) -> None:
    @tool
    async def find() -> None:
        try:
            raise KeyError("city")
        except KeyError as error:
            raise ToolError("NOT_FOUND", "no such city") from error

    caplog.set_level(logging.DEBUG, logger=LOG)
    async with Executor([find]) as executor:
        result = await executor.invoke(ToolCall("1", "find"))

    assert result.error is not None and result.error.code == "NOT_FOUND"
    assert logged(caplog) == []


def test_what_a_session_raises_under_fail_fast_comes_from_what_the_tool_raised_and_names_tool_and_arguments() -> None:
    model = ScriptedModel([call("unlucky", number=13, password="correct horse")])
    with Session(model, tools=[unlucky], on_error="fail_fast") as session, pytest.raises(ToolFailed) as caught:
        session.ask("try")

    failed, cause = caught.value, caught.value.__cause__
    assert isinstance(cause, ValueError)
    assert traceback.extract_tb(cause.__traceback__)[-1].name == "unlucky"
    assert (failed.tool, failed.outcome) == ("unlucky", "failed")
    assert failed.arguments == {"number": 13, "password": "[redacted]"}
    assert "correct horse" not in str(failed)


async def test_a_caller_who_wants_them_gets_the_exceptions_of_its_calls() -> None:
    @tool
    async def refuse() -> None:
        raise ToolError("NO", "not today")

    raised: dict[str, Exception] = {}
    async with Executor([unlucky, refuse]) as executor:
        context = Context(raised=raised)
        await executor.invoke(ToolCall("1", "unlucky", {"number": 1, "password": "xyz"}), context)
        await executor.invoke(ToolCall("2", "refuse"), context)
        await executor.invoke(ToolCall("3", "unlucky", {"number": "one"}), context)

    assert [(key, type(error)) for key, error in raised.items()] == [("1", ValueError), ("2", ToolError)]
