"""Paths of source files, and the order of the rooms, that the pages for developers name."""

from __future__ import annotations

import re
import tomllib

import pytest

from tests.docs.pages import ROOT

PACKAGE = ROOT / "src" / "handrail"


PAGES = ["AGENTS.md", "CONTRIBUTING.md", "docs/design/architecture.md"]


@pytest.mark.parametrize("page", PAGES)
def test_a_page_names_the_rooms_in_the_order_that_the_import_contract_demands(page: str) -> None:
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["importlinter"][
        "contracts"
    ]
    [layers] = (each["layers"] for each in contracts if each["type"] == "layers")

    [chain] = re.findall(r"`cli` →[^.]*?→ `core`", (ROOT / page).read_text(encoding="utf-8"))

    named = [set(re.findall(r"`(\w+)`", row)) for row in chain.split("→")]
    assert named == [set(re.findall(r"handrail\.(\w+)", row)) for row in layers]


@pytest.mark.parametrize("page", PAGES)
def test_every_source_path_that_a_page_names_exists(page: str) -> None:
    text = (ROOT / page).read_text(encoding="utf-8")
    paths = re.findall(r"`(\w[\w.-]*/(?:[\w.-]+/)*[\w.-]*|\w+\.py)`", text)

    missing = [path for path in paths if not any((base / path).exists() for base in (ROOT, PACKAGE))]

    assert missing == []
