"""Paths of source files that the pages for developers name."""

from __future__ import annotations

import re

import pytest

from tests.docs.pages import ROOT

PACKAGE = ROOT / "src" / "handrail"


@pytest.mark.parametrize("page", ["AGENTS.md", "CONTRIBUTING.md", "docs/design/architecture.md"])
def test_every_source_path_that_a_page_names_exists(page: str) -> None:
    text = (ROOT / page).read_text(encoding="utf-8")
    paths = re.findall(r"`(\w[\w.-]*/(?:[\w.-]+/)*[\w.-]*|\w+\.py)`", text)

    missing = [path for path in paths if not any((base / path).exists() for base in (ROOT, PACKAGE))]

    assert missing == []
