"""What the pages for users of other frameworks show side by side, feature by feature, prints the same on both sides."""

from __future__ import annotations

import io
import json
import runpy
from contextlib import redirect_stdout
from pathlib import Path

import pytest

from tests.docs.model_service import local_model_service, point_service_at, reply
from tests.docs.pages import ROOT, read_page
from tests.docs.peer_programs import run_with
from tests.wires.wire_dialogue import ScriptedReply, UnderstoodRequest, WireCall

FOLDER = ROOT / "docs" / "examples" / "migrating"
PRINTED = {
    "typed": "name='Lisbon' country='Portugal'\n",
    "streaming": "Hello!\n",
    "deps": "Order 17 of Ada: on its way.\nOrder 17 of a test: made of paper.\n",
    "agents": "Order 17 is on its way.\n",
    "testing": "It is on its way.\n",
}
"""Of each feature, what both programs print."""
SHOWN = {
    "pydantic_ai": ["typed", "streaming", "deps", "agents", "testing"],
    "langchain": ["typed", "streaming", "deps", "agents"],
    "openai_agents": ["typed", "streaming", "deps", "agents"],
}
"""Of each framework, the features that its page shows side by side."""
PAIRS = [(peer, feature) for peer, features in SHOWN.items() for feature in features]


def answer(heard: UnderstoodRequest, id: str) -> ScriptedReply:
    """A clerk who knows a city, too, and gives it in the way that is asked for."""
    if "trams" not in heard.words:
        return reply(heard, id)
    city = {"name": "Lisbon", "country": "Portugal"}
    if heard.offers:
        return ScriptedReply(calls=(WireCall(id, "final_result", city),))
    return ScriptedReply(json.dumps(city))


def before(peer: str, feature: str) -> Path:
    return FOLDER / f"{peer}_{feature}_before.py"


def after(feature: str) -> Path:
    return FOLDER / f"{feature}_after.py"


@pytest.mark.parametrize("peer", SHOWN)
def test_the_programs_before_print_what_the_page_shows(peer: str, tmp_path: Path) -> None:
    programs = [before(peer, feature) for feature in SHOWN[peer]]

    with local_model_service(answer) as url:
        variables = {"OPENAI_BASE_URL": f"{url}/openai/v1", "OPENAI_API_KEY": "the-key"}
        printed = run_with(peer, *programs, folder=tmp_path, **variables)

    assert dict(zip(SHOWN[peer], printed, strict=True)) == {feature: PRINTED[feature] for feature in SHOWN[peer]}


@pytest.mark.parametrize("feature", PRINTED)
def test_the_program_after_prints_the_same(feature: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    printed = io.StringIO()
    with local_model_service(answer) as url, redirect_stdout(printed):
        point_service_at("openai", url, monkeypatch)
        runpy.run_path(str(after(feature)))

    assert printed.getvalue() == PRINTED[feature]


@pytest.mark.parametrize(("peer", "feature"), PAIRS)
def test_the_page_shows_both_programs_as_they_are_and_what_they_print(peer: str, feature: str) -> None:
    blocks = read_page(ROOT / "docs" / "migrating" / f"{peer.replace('_', '-')}.md").blocks
    shown = {block.file: index for index, block in enumerate(blocks) if block.file is not None}
    programs = before(peer, feature), after(feature)

    places = [shown[program.name] for program in programs]

    assert [blocks[place].text for place in places] == [
        f"# {program.name}\n{program.read_text(encoding='utf-8')}" for program in programs
    ]
    assert blocks[places[1] + 1].text == PRINTED[feature]
