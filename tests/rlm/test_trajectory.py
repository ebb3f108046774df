"""Trajectories: what the visualizer of `rlms` needs, bounded, without secrets, whole lines whatever happens."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, strategies as st
from rlm.core import types as upstream
from rlm.logger import RLMLogger as UpstreamLogger

from handrail.core.errors import UsageError
from handrail.core.redact import Secret
from handrail.rlm.record.json_lines import LINE_BYTES, line_of
from handrail.rlm.record.trajectory import RLMLogger, parse_trajectory, read
from handrail.rlm.values import (
    CodeBlock,
    ModelUsage,
    REPLResult,
    RLMChatCompletion,
    RLMIteration,
    RLMMetadata,
    UsageSummary,
)
from handrail.testing.clock import FixedClock

KEY = "sk-proj-" + "a1B2" * 10
BEGUN: dict[str, Any] = {
    "root_model": "m",
    "max_depth": 1,
    "max_iterations": 30,
    "backend": "openai",
    "backend_kwargs": {"model_name": "m", "timeout": 3.5, "max_tokens": 5},
    "environment_type": "local",
    "environment_kwargs": {"setup_code": "x = 1", "helper": len},
    "other_backends": None,
}
ASKED: list[dict[str, Any]] = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Go."}]


def ours(response: str = "```repl\nprint(1)\n```", calls: int = 1, prompt: Any = ASKED) -> RLMIteration:
    usage = UsageSummary(model_usage_summaries={"m": ModelUsage(total_calls=1, total_cost=0.5)})
    call = RLMChatCompletion(root_model="m", prompt="sub", response="ok", usage_summary=usage, execution_time=0.1)
    result = REPLResult(stdout="1\n", locals={"x": "int"}, execution_time=0.2, rlm_calls=[call] * calls)
    return RLMIteration(
        prompt=prompt, response=response, code_blocks=[CodeBlock(code="print(1)", result=result)], iteration_time=1.5
    )


def theirs() -> upstream.RLMIteration:
    usage = upstream.UsageSummary({"m": upstream.ModelUsageSummary(1, 0, 0, 0.5)})
    call = upstream.RLMChatCompletion("m", "sub", "ok", usage, 0.1)
    result = upstream.REPLResult("1\n", "", {"x": 1}, 0.2, [call])
    block = upstream.CodeBlock("print(1)", result)
    return upstream.RLMIteration(ASKED, "```repl\nprint(1)\n```", [block], None, 1.5)


def lines(logger: Any) -> list[dict[str, Any]]:
    return [json.loads(line) for line in Path(logger.log_file_path).read_text(encoding="utf-8").splitlines()]


def shape(value: Any) -> Any:
    """Keys and types, at any depth. The values of variables are ours to show as we like."""
    match value:
        case dict():
            return {key: "locals" if key == "locals" else shape(item) for key, item in value.items()}
        case list():
            return [shape(item) for item in value]
    return type(value).__name__


def test_files_have_the_fields_and_types_that_rlms_writes(tmp_path: Path) -> None:
    one, other = RLMLogger(tmp_path / "ours"), UpstreamLogger(str(tmp_path / "theirs"))
    one.log_metadata(RLMMetadata(**BEGUN))
    other.log_metadata(upstream.RLMMetadata(**BEGUN))
    for _ in range(2):
        one.log(ours())
        other.log(theirs())

    assert shape(lines(one)) == shape(lines(other))
    assert [line.get("iteration") for line in lines(one)] == [None, 1, 2]
    assert shape(one.get_trajectory()) == shape(other.get_trajectory())


def test_a_file_of_rlms_is_read_back(tmp_path: Path) -> None:
    logger = UpstreamLogger(str(tmp_path))
    logger.log_metadata(upstream.RLMMetadata(**BEGUN))
    logger.log(theirs())
    assert logger.log_file_path is not None

    found = read(logger.log_file_path)

    assert found.notes == ()
    assert found.metadata is not None and found.metadata.backend == "openai"
    assert [(each.number, each.iteration.response) for each in found.iterations] == [(1, theirs().response)]
    assert found.iterations[0].iteration.code_blocks[0].result.rlm_calls[0].response == "ok"


def test_a_final_answer_of_an_old_file_is_read(tmp_path: Path) -> None:
    logger = RLMLogger(tmp_path)
    logger.log(ours())
    old = {**lines(logger)[0], "final_answer": ["FINAL_VAR", "42"]}
    found = parse_trajectory([json.dumps(old).encode()])
    assert (found.notes, found.iterations[0].iteration.final_answer) == ((), "42")


def test_the_file_is_named_after_time_and_chance_and_belongs_to_its_owner(tmp_path: Path) -> None:
    clock = FixedClock()
    logger = RLMLogger(tmp_path / "deep" / "down", "job", clock=clock, new_suffix=lambda: "0123abcd")
    logger.log_metadata(RLMMetadata(**BEGUN))
    [file] = (tmp_path / "deep" / "down").iterdir()

    assert re.fullmatch(r"job_\d{4}-\d\d-\d\d_\d\d-\d\d-\d\d_0123abcd\.jsonl", file.name)
    assert logger.log_file_path == str(file)
    assert file.stat().st_mode & 0o777 == 0o600
    assert datetime.fromisoformat(lines(logger)[0]["timestamp"]).timestamp() == clock.now() / 1000


def test_without_a_folder_the_trajectory_is_in_memory_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    logger = RLMLogger()
    assert logger.get_trajectory() is None
    logger.log_metadata(RLMMetadata(**BEGUN))
    logger.log_metadata(RLMMetadata(**{**BEGUN, "root_model": "another"}))
    logger.log(ours())

    found = logger.get_trajectory()

    assert found is not None and found["run_metadata"]["root_model"] == "m"
    assert (len(found["iterations"]), logger.iteration_count, logger.log_file_path) == (1, 1, None)
    assert list(tmp_path.iterdir()) == []
    logger.clear_iterations()
    assert (logger.get_trajectory() or {})["iterations"] == []


def test_secrets_are_in_no_line_and_in_no_memory(tmp_path: Path) -> None:
    logger = RLMLogger(tmp_path)
    settings = {
        "api_key": "short",
        "client": {"Authorization": "Basic abc", "password": ["hunter2"]},
        "typed": Secret("very hidden"),
        "max_tokens": 7,
        "note": f"use {KEY}",
    }
    logger.log_metadata(RLMMetadata(**{**BEGUN, "backend_kwargs": settings}))
    logger.log(ours(response=f"the key is {KEY}", prompt={KEY: "x"}))

    written = Path(logger.log_file_path or "").read_text(encoding="utf-8") + json.dumps(logger.get_trajectory())

    for secret in (KEY, "short", "Basic abc", "hunter2", "very hidden"):
        assert secret not in written
    assert lines(logger)[0]["backend_kwargs"]["max_tokens"] == 7
    assert lines(logger)[1]["code_blocks"][0]["result"]["locals"] == {"x": "int"}


def test_a_secret_that_a_cut_goes_through_is_masked_all_the_same(tmp_path: Path) -> None:
    logger = RLMLogger(tmp_path, line_bytes=4_000)
    for place in range(200, 520, 3):
        logger.log(ours(response="x " * place + KEY + " y" * 9_000 + " " + KEY + " z" * place))

    written = Path(logger.log_file_path or "").read_text(encoding="utf-8")
    assert KEY[-12:] not in written and KEY[:10] not in written
    assert "[redacted]" in written


@pytest.mark.parametrize(
    "large",
    [
        ours(response="word " * 2_000_000),
        ours(prompt=[{"role": "user", "content": "é" * 200_000}] * 10),
        ours(calls=5_000),
        ours(prompt={str(number): number for number in range(200_000)}),
    ],
    ids=["a long reply", "a long prompt", "many sub-queries", "a large context"],
)
def test_a_line_has_a_bound_and_says_what_is_missing(large: RLMIteration, tmp_path: Path) -> None:
    logger = RLMLogger(tmp_path, line_bytes=200_000)
    logger.log(large)
    [line] = Path(logger.log_file_path or "").read_bytes().splitlines()

    assert len(line) < 200_000
    assert b"left out" in line or b"left_out" in line
    assert read(logger.log_file_path or "").iterations[0].number == 1


def test_of_many_long_queries_a_few_are_shown_at_length() -> None:
    """And the others are cut before they are looked through for secrets, which would take half a minute."""
    call = RLMChatCompletion(root_model="m", prompt="p" * 20_000, response="r" * 20_000)
    block = CodeBlock(code="", result=REPLResult(rlm_calls=[call] * 10_000))
    kept, line = line_of(RLMIteration(prompt=[], response="", code_blocks=[block]).to_dict())
    shown = kept["code_blocks"][0]["result"]["rlm_calls"]
    assert (len(shown), kept["left_out"]) == (156, 10_000 - 156)
    assert 1_500 < len(shown[0]["prompt"]) < 1_700
    assert len(line) < LINE_BYTES


def test_what_is_held_in_memory_has_a_bound() -> None:
    logger = RLMLogger(kept=4)
    logger.log_metadata(RLMMetadata(**BEGUN))
    for number in range(10):
        logger.log(ours(response=str(number)))

    found = logger.get_trajectory() or {}

    assert [each["iteration"] for each in found["iterations"]] == [1, 2, 9, 10]
    assert (found["left_out"], logger.iteration_count) == (6, 10)


KILLED = """
import os, sys
from handrail.rlm.record.trajectory import RLMLogger
from handrail.rlm.values import RLMIteration, RLMMetadata
logger = RLMLogger(sys.argv[1])
logger.log_metadata(RLMMetadata(root_model="m", max_depth=1, max_iterations=3, backend="openai"))
logger.log(RLMIteration(prompt="?", response="so"))
os.kill(os.getpid(), 9)
"""


def test_what_was_logged_is_whole_when_the_process_is_killed(tmp_path: Path) -> None:
    done = subprocess.run([sys.executable, "-c", KILLED, str(tmp_path)], timeout=60, check=False)
    [file] = tmp_path.iterdir()
    found = read(file)

    assert done.returncode == -9
    assert (found.metadata is not None, len(found.iterations), found.notes) == (True, 1, ())


def test_a_torn_last_line_is_skipped_with_a_notice(tmp_path: Path) -> None:
    logger = RLMLogger(tmp_path)
    logger.log_metadata(RLMMetadata(**BEGUN))
    logger.log(ours())
    path = Path(logger.log_file_path or "")
    whole = path.read_bytes()
    path.write_bytes(whole + whole.splitlines()[1][:40])

    found = read(path)

    assert len(found.iterations) == 1
    [note] = found.notes
    assert "line 3" in note and "not written to its end" in note


def test_a_full_disk_costs_the_line_and_not_the_run(caplog: pytest.LogCaptureFixture) -> None:
    logger = RLMLogger("/dev", "full")
    logger._path = Path("/dev/full")
    logger.log(ours())

    assert logger.iteration_count == 1
    assert "cannot be written" in caplog.text


def test_a_folder_that_cannot_be_is_said_at_once(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(UsageError, match="cannot be kept"):
        RLMLogger(tmp_path / "file")
    with pytest.raises(UsageError, match="cannot be read"):
        read(tmp_path / "nothing.jsonl")


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(st.characters()) | st.binary(max_size=3),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(st.characters()), inner, max_size=4),
)


@given(JSON, st.text(st.characters()), st.integers(3_000, 20_000))
def test_whatever_was_asked_and_said_is_a_line_that_can_be_read(prompt: Any, response: str, most: int) -> None:
    logger = RLMLogger(line_bytes=most)
    logger.log_metadata(RLMMetadata(**{**BEGUN, "backend_kwargs": {"any": prompt}}))
    logger.log(ours(response=response * 50, prompt=[prompt] * 50))
    found = logger.get_trajectory() or {}
    kept = [{"type": "metadata", "timestamp": "", **found["run_metadata"]}, *found["iterations"]]

    read_back = parse_trajectory(
        [json.dumps(each, ensure_ascii=False, allow_nan=False).encode() + b"\n" for each in kept]
    )

    assert read_back.notes == ()
    assert read_back.metadata is not None and len(read_back.iterations) == 1
