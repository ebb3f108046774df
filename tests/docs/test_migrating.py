"""What the page for users of pydantic-ai shows side by side, feature by feature, prints the same on both sides."""

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

FOLDER = Path("docs/examples/migrating")
PAGE = read_page(ROOT / "docs" / "migrating" / "pydantic-ai.md")
PRINTED = {
    "typed": "name='Lisbon' country='Portugal'\n",
    "streaming": "Hello!\n",
    "deps": "Order 17 of Ada: on its way.\nOrder 17 of a test: made of paper.\n",
    "testing": "It is on its way.\n",
}
"""Of each feature, what both programs print."""


def answer(heard: UnderstoodRequest, id: str) -> ScriptedReply:
    """A clerk who knows a city, too, and gives it in the way that is asked for."""
    if "trams" not in heard.words:
        return reply(heard, id)
    city = {"name": "Lisbon", "country": "Portugal"}
    if heard.offers:
        return ScriptedReply(calls=(WireCall(id, "final_result", city),))
    return ScriptedReply(json.dumps(city))


def path(feature: str, when: str) -> Path:
    return FOLDER / f"pydantic_ai_{feature}_{when}.py"


def test_the_programs_before_print_what_the_page_shows(tmp_path: Path) -> None:
    with local_model_service(answer) as url:
        printed = run_with(
            "pydantic_ai",
            *(path(feature, "before") for feature in PRINTED),
            folder=tmp_path,
            OPENAI_BASE_URL=f"{url}/openai/v1",
            OPENAI_API_KEY="the-key",
        )

    assert dict(zip(PRINTED, printed, strict=True)) == PRINTED


@pytest.mark.parametrize("feature", PRINTED)
def test_the_program_after_prints_the_same(feature: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    printed = io.StringIO()
    with local_model_service(answer) as url, redirect_stdout(printed):
        point_service_at("openai", url, monkeypatch)
        runpy.run_path(str(ROOT / path(feature, "after")))

    assert printed.getvalue() == PRINTED[feature]


@pytest.mark.parametrize("feature", PRINTED)
def test_the_page_shows_both_programs_as_they_are_and_what_they_print(feature: str) -> None:
    shown = {block.file: index for index, block in enumerate(PAGE.blocks) if block.file is not None}

    for when in ("before", "after"):
        file = path(feature, when)
        assert PAGE.blocks[shown[file.name]].text == f"# {file.name}\n{(ROOT / file).read_text(encoding='utf-8')}"
    assert PAGE.blocks[shown[path(feature, "after").name] + 1].text == PRINTED[feature]
