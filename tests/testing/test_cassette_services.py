"""A cassette over every wire: recorded from a service on this machine, replayed when it is gone, and its key too."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from handrail import Session, create_llm, tool
from handrail.models.api_keys import key_variables
from handrail.models.services import SERVICES
from handrail.testing import cassette
from tests.docs.model_service import CREDENTIALS, local_model_service, point_service_at
from tests.wires.wire_dialogue import WireCase
from tests.wires.wire_table import WIRES


def _is_plain(wire: WireCase) -> bool:
    """Whether it is a service under its own name, at an address that a test can change."""
    return wire.name in SERVICES and not (wire.prompted or wire.moved or wire.options)


@pytest.mark.parametrize("name", [wire.name for wire in WIRES.values() if _is_plain(wire)])
def test_what_a_service_said_is_replayed_without_it_and_without_a_key(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("CI", raising=False)
    monkeypatch.delenv("HANDRAIL_CASSETTES", raising=False)

    def program(*, really: bool) -> tuple[str, list[object], bool]:
        @tool
        def add(a: int, b: int) -> int:
            """Add two numbers."""
            if not really:
                raise NotImplementedError
            return a + b

        with create_llm(name, model=WIRES[name].model) as llm, Session(llm, tools=[add]) as session:
            reply = session.ask("add 17 and 25")
            again = session.ask("add 1 and 2")
            return reply.text + again.text, [each.content for each in reply.results], session.proof.verify().ok

    with local_model_service() as url, monkeypatch.context() as patch:
        point_service_at(name, url, patch)
        with cassette(name, folder=tmp_path, mode="record") as tape:
            first = program(really=True)
    for variable in (*key_variables(SERVICES[name].key_of or name), *CREDENTIALS):
        monkeypatch.delenv(variable, raising=False)
    with cassette(name, folder=tmp_path):
        again = program(really=False)

    assert again == first
    assert first[1] == [42]
    entries = json.loads(tape.path.read_text())["entries"]
    assert [entry["request"].get("after") for entry in entries if "request" in entry] == [None, 1, 3, 4]


TEST = '''
import pytest
from handrail import Session, tool
from handrail.testing import ScriptedModel, call, cassette, text

ASKED = []


@tool
def find(id: str) -> str:
    """Find."""
    ASKED.append(id)
    return "umbrella"


@pytest.fixture
def model():
    return ScriptedModel([call("find", id="17")], [text("An umbrella.")])


@cassette("found")
def test_an_order_is_found(model, request):
    with Session(model, tools=[find]) as session:
        assert session.ask("What is order 17?").text == "An umbrella."
    print("asked", len(ASKED))


@cassette("awaited")
async def test_an_order_is_found_again(model):
    async with Session(model, tools=[find]) as session:
        assert (await session.ask_async("What is order 18?")).text == "An umbrella."
'''


def test_under_pytest_the_first_run_says_how_to_record_and_later_runs_replay(tmp_path: Path) -> None:
    (tmp_path / "test_orders.py").write_text(TEST)
    (tmp_path / "pytest.ini").write_text("[pytest]\nasyncio_mode = auto\n")

    def outcome(**environ: str) -> tuple[int, str]:
        inherited = {name: value for name, value in os.environ.items() if name not in ("CI", "HANDRAIL_CASSETTES")}
        inherited["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"  # a few of those here take seconds to load
        arguments = [sys.executable, "-m", "pytest", "-q", "-s", "-p", "pytest_asyncio.plugin", "test_orders.py"]
        done = subprocess.run(
            arguments, cwd=tmp_path, env={**inherited, **environ}, capture_output=True, text=True, check=False
        )
        return done.returncode, done.stdout

    code, said = outcome()
    assert (code, "HANDRAIL_CASSETTES=record" in said, (tmp_path / "cassettes").exists()) == (1, True, False)
    code, said = outcome(HANDRAIL_CASSETTES="record")
    assert (code, "asked 1" in said, "2 passed" in said) == (0, True, True)
    code, said = outcome(CI="true")
    assert (code, "asked 0" in said, "2 passed" in said) == (0, True, True)
    assert sorted(path.name for path in (tmp_path / "cassettes").iterdir()) == ["awaited.json", "found.json"]
