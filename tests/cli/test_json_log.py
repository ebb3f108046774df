"""Logs as JSON: whatever a node says on stderr, each line is one object, and no secret is in it."""

from __future__ import annotations

import json
import logging
import sys
from pathlib import Path
from types import TracebackType

import pytest
from hypothesis import given, strategies as st

from handrail.cli.output.json_log import JsonFormatter
from tests.cli.test_serve import CONFIG, REPLIES, TOOLS, running, told_to_end

RUN, CALL = f"run_{'0' * 32}", f"call_{'a' * 32}"
ExcInfo = tuple[type[BaseException], BaseException, TracebackType | None]


def record(message: str, *values: object, exc_info: ExcInfo | None = None) -> logging.LogRecord:
    return logging.LogRecord("handrail.app", logging.WARNING, __file__, 1, message, values, exc_info)


@given(st.text())
def test_every_message_is_one_line_that_can_be_read(message: str) -> None:
    line = JsonFormatter().format(record("%s", message))

    assert line.isascii() and line.isprintable()
    assert list(json.loads(line))[:4] == ["time", "level", "logger", "message"]


def test_ids_that_a_message_names_are_fields_of_their_own() -> None:
    one = json.loads(JsonFormatter().format(record("call %s of %s was cut off", CALL, RUN)))
    two = json.loads(JsonFormatter().format(record("%s, then %s, then %s", RUN, RUN[:-1] + "1", RUN)))

    assert (one["run"], one["call"], one["level"]) == (RUN, CALL, "warning")
    assert two["run"] == [RUN, RUN[:-1] + "1"] and "call" not in two


def test_an_exception_is_told_without_its_secrets() -> None:
    try:
        raise ValueError("key sk-ant-api03-" + "A" * 60)
    except ValueError as error:
        info = (ValueError, error, sys.exc_info()[2])
    told = json.loads(JsonFormatter().format(record("it failed", exc_info=info)))

    assert "Traceback" in told["exception"] and "ValueError" in told["exception"]
    assert "A" * 60 not in told["exception"]


@pytest.mark.parametrize("where", ["--log", "[node] log"])
def test_a_node_that_serves_writes_nothing_else_on_stderr_and_not_its_token(tmp_path: Path, where: str) -> None:
    config = CONFIG + 'log = "json"\n' if where == "[node] log" else CONFIG
    for name, text in (("tools.py", TOOLS), ("handrail.toml", config), ("replies.toml", REPLIES)):
        (tmp_path / name).write_text(text)
    words = ("--log", "json") if where == "--log" else ()
    lines: list[str] = []
    with running(tmp_path, "serve", "--listen", "127.0.0.1:0", "--no-token", *words, until="Serving at") as (
        node,
        said,
    ):
        assert node.stderr is not None
        (tmp_path / "handrail.toml").write_text("not TOML")
        lines += [*said, node.stderr.readline().rstrip()]  # it looks at its files, and says what is wrong with one
        assert told_to_end(node) == 0
        lines += node.stderr.read().splitlines()
    told = [json.loads(line) for line in lines]

    assert {each["level"] for each in told} == {"warning", "info"}
    assert any(each["message"].startswith("Serving at http://127.0.0.1:") for each in told)
    assert any("until it is mended" in each["message"] for each in told)
    assert all(each["time"].endswith("Z") for each in told)
