"""The page on security names tests that exist, for every promise and for every attack."""

from __future__ import annotations

import re

import pytest

from tests.docs.pages import ROOT, read_page

PAGE = read_page(ROOT / "docs" / "security.md")
_TEST_FILE = re.compile(r"tests/[\w/.]+")


def rows(heading: str) -> list[str]:
    """The rows of the table under a heading, without its head."""
    section = PAGE.prose.partition(f"\n## {heading}\n")[2].partition("\n## ")[0]
    return [line for line in section.splitlines() if line.startswith("| ")][1:]


def test_every_test_that_the_page_names_exists() -> None:
    named = _TEST_FILE.findall(PAGE.prose)

    assert named
    assert [path for path in named if not (ROOT / path).is_file()] == []


@pytest.mark.parametrize("heading", ["What is promised", "Attacks that the suite runs"])
def test_every_promise_and_every_attack_names_a_test(heading: str) -> None:
    found = rows(heading)

    assert found
    assert [row for row in found if not _TEST_FILE.search(row)] == []
