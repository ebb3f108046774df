"""What is wrong in some Python from 3.11 on, and holds here all the same: patterns, time limits, groups of tasks."""

from __future__ import annotations

import asyncio
import importlib.metadata
import re
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from pathlib import Path

import pytest
from hypothesis import given, strategies as st
from packaging.specifiers import SpecifierSet

from handrail.core.redact import MASK, redact_text
from handrail.core.tasks import unwrap_exception_group
from handrail.core.timeouts import reliable_timeout, time_limit, time_limit_at
from handrail.models.prompted.lenient_json import strict_json
from handrail.rlm.report.html import highlighted

ROOT = Path(__file__).parents[2]
SOURCES = sorted((ROOT / "src" / "handrail").rglob("*.py"))
OLDEST = "3.11.0"
Scope = AbstractAsyncContextManager[asyncio.Timeout]
BEGIN, END = "-----BEGIN PRIVATE KEY-----", "-----END PRIVATE KEY-----"

_ESCAPES = re.compile(r"""\(\?:\\\\\.\[\^[^\]]+\]\*\+\)\*\+(?=["'\[])""")
"""The escapes of a string up to its quote: this group fails behind its first character only where the text ends."""
_POSSESSIVE_GROUP = re.compile(r"(?<!\()\)(?:[*+?]|\{[\d,]+\})\+")


@given(st.text("-\nA ", max_size=40))
def test_a_private_key_is_masked_from_its_beginning_to_its_end(inside: str) -> None:
    shown = inside.partition("-----")
    rest = shown[1] + shown[2] + END if shown[1] else ""
    if shown[1] == "" and inside.endswith("-"):  # its last dashes and those of the end are one row
        return

    assert redact_text(f"{BEGIN}{inside}{END}") == MASK + rest


@given(st.text("\"'\\na`{ ", max_size=30))
def test_a_long_string_ends_at_the_first_three_quotes_that_no_backslash_escapes(inside: str) -> None:
    body = re.sub(r'\\.|"|\\$', "", inside, flags=re.DOTALL)

    assert strict_json(f'"""{body}"quoted"  """').startswith('"')


def test_code_is_highlighted_up_to_the_end_of_an_open_string() -> None:
    assert highlighted('"""a "b" c', str) == '<span class="s">"""a "b" c</span>'


async def time_out_in_cleanup(waiting: asyncio.Event, limit: Callable[[], Scope]) -> str:
    """How a time limit ends in a task that was cancelled before, and puts its things away."""
    try:
        waiting.set()
        await asyncio.Event().wait()
    except asyncio.CancelledError:
        try:
            async with limit():
                await asyncio.Event().wait()
        except TimeoutError:
            return "timed out"
    return "nothing"


@pytest.mark.parametrize(
    "limit",
    [lambda: time_limit(0), lambda: time_limit_at(0), lambda: reliable_timeout(asyncio.timeout(0))],
    ids=["time_limit", "time_limit_at", "reliable"],
)
async def test_a_time_limit_holds_while_a_cancelled_task_puts_its_things_away(limit: Callable[[], Scope]) -> None:
    waiting = asyncio.Event()
    task = asyncio.create_task(time_out_in_cleanup(waiting, limit))
    await waiting.wait()
    task.cancel()

    assert await task == "timed out"


async def test_whoever_cancels_a_task_within_a_time_limit_cancels_it() -> None:
    waiting = asyncio.Event()

    async def work() -> None:
        async with reliable_timeout(asyncio.timeout(60)):
            waiting.set()
            await asyncio.Event().wait()

    task = asyncio.create_task(work())
    await waiting.wait()
    task.cancel()

    with pytest.raises(asyncio.CancelledError):
        await task


async def test_what_several_tasks_raise_reaches_the_caller_as_one_of_them() -> None:
    async def fail() -> None:
        raise LookupError("no such city")

    with pytest.raises(LookupError, match="no such city"):
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(fail())
        except BaseExceptionGroup as failed:
            raise unwrap_exception_group(failed, LookupError) from None


def test_a_group_that_holds_something_else_too_stays_a_group() -> None:
    group = ExceptionGroup("two", [LookupError(), ValueError()])

    assert unwrap_exception_group(group, LookupError) is group


@pytest.mark.parametrize(
    ("what", "instead"),
    [
        (re.compile(r"asyncio\.timeout(_at)?\("), "time_limit of handrail.core.timeouts"),
        (re.compile(r"^\s*except\*", re.MULTILINE), "unwrapped of handrail.core.tasks"),
        (_POSSESSIVE_GROUP, "(?>(?:…)*), for up to 3.11.4 a group that fails midway leaves the place where it did"),
    ],
    ids=["timeout", "except*", "possessive group"],
)
def test_nothing_is_written_that_some_python_gets_wrong(what: re.Pattern[str], instead: str) -> None:
    found = [
        f"{path.relative_to(ROOT)}: {match[0].strip()!r}; use {instead}"
        for path in SOURCES
        if path.name != "timeouts.py"
        for match in what.finditer(_ESCAPES.sub("", path.read_text(encoding="utf-8")))
    ]

    assert found == []


def requires_python(package: importlib.metadata.Distribution) -> str:
    return ",".join(package.metadata.get_all("Requires-Python") or [])


def test_every_pinned_package_that_is_installed_allows_the_oldest_python() -> None:
    pins = dict(line.split("==") for line in (ROOT / "constraints.txt").read_text().split())
    pinned = [each for each in importlib.metadata.distributions() if pins.get(each.name) == each.version]

    refused = [each.name for each in pinned if OLDEST not in SpecifierSet(requires_python(each))]

    assert pinned
    assert refused == []
