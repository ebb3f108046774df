"""Links between pages lead somewhere, and every public name has its place."""

from __future__ import annotations

import re

import pytest

import handrail
from tests.docs.pages import ROOT, Page, pages, read_page

PAGES = pages()
OUTSIDE = ("http://", "https://", "mailto:")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_the_links_of_a_page_lead_to_files_and_headings_that_exist(page: Page) -> None:
    assert [link for link in page.links if not link.startswith(OUTSIDE) and not _resolves(page, link)] == []


@pytest.mark.parametrize("name", ["AGENTS.md", "docs/llms.txt"])
def test_what_is_written_for_coding_agents_leads_to_files_that_exist(name: str) -> None:
    file = ROOT / name
    links = re.findall(r"\]\(([^)#]+)\)", file.read_text(encoding="utf-8"))
    assert links and [link for link in links if not (file.parent / link).is_file()] == []


def _resolves(page: Page, link: str) -> bool:
    path, _, anchor = link.partition("#")
    target = (page.path.parent / path).resolve() if path else page.path
    if not target.exists() or not target.is_relative_to(ROOT):
        return False
    return not anchor or (target.suffix == ".md" and anchor in read_page(target).anchors)


def test_every_page_can_be_reached_from_the_index() -> None:
    index = ROOT / "docs" / "index.md"
    linked = {(index.parent / link.partition("#")[0]).resolve() for link in read_page(index).links}

    assert [page.name for page in PAGES if page.path.parent == index.parent and page.path not in linked | {index}] == []


def test_every_public_name_is_in_the_docs() -> None:
    text = "\n".join(page.prose + "".join(block.text for block in page.blocks) for page in PAGES)

    assert [name for name in dir(handrail) if not re.search(rf"\b{name}\b", text)] == []
