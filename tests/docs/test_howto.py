"""The short pages: there is one for each wire, and the files that they show are good."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

from handrail.config.load import load_config
from handrail.config.network import NodeSettings
from handrail.models.codec_table import CODECS
from handrail.models.services import SERVICES
from tests.cli.terminal_fixtures import program_dialogue
from tests.docs.model_service import service_named
from tests.docs.pages import ROOT, Page, matches, pages, read_page

SHELLS = ("console", "sh")
PAGES = [page for page in pages() if page.path.parent.name == "howto"]


def test_there_is_a_page_for_each_wire() -> None:
    named = {name for page in PAGES if (name := service_named(page)) is not None}

    assert {_package(SERVICES[name].wire) for name in named} == set(map(_package, CODECS))


def _package(wire: str) -> str:
    return CODECS[wire].partition(":")[0]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.path.stem)
def test_a_page_that_types_commands_installs_the_command_line(page: Page) -> None:
    typed = any(
        re.search(r"^(\$ )?handrail ", block.text, re.MULTILINE) for block in page.blocks if block.language in SHELLS
    )
    wanted = re.findall(r"pip install [^`\n]*handrail\[([\w,]+)\]", page.path.read_text(encoding="utf-8"))

    assert not typed or not wanted or any({"cli", "tui", "all"} & set(extras.split(",")) for extras in wanted)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.path.stem)
def test_the_configuration_on_a_page_can_be_read(page: Page, tmp_path: Path) -> None:
    for block in page.blocks:
        if block.language == "toml":
            file = tmp_path / "handrail.toml"
            file.write_text(block.text, encoding="utf-8")
            config = load_config(file, environ={})
            assert config.models or config.mcp or config.rules or config.node != NodeSettings()


def test_the_dialogue_at_the_terminal_is_as_shown(tmp_path: Path) -> None:
    page = read_page(ROOT / "docs/howto/approve.md")
    program = next(block.text for block in page.blocks if block.file == "pay.py")
    command, _, shown = next(block.text for block in page.blocks if block.language == "console").partition("\n")
    (tmp_path / "pay.py").write_text(program, encoding="utf-8")
    prompts = re.findall(r"^(Allow it\? \S+ |Why\? \(.*\) )(.*)$", shown, re.MULTILINE)

    code, seen = program_dialogue(
        [sys.executable, str(tmp_path / "pay.py")],
        *((prompt, f"{answer}\n") for prompt, answer in prompts),
        LOGNAME="ada",
    )

    assert (command, code) == ("$ python pay.py", 0)
    assert matches(seen, shown), seen
