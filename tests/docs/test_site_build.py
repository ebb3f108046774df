"""The site builds without a warning, and its pages load nothing from elsewhere.

`make site` installs the generator and runs this; where it is not installed, it is skipped. The reference is not
rendered here, for reading all sources takes longer than the rest; `make site` does it.
"""

from __future__ import annotations

import json
import logging
import re
from pathlib import Path
from typing import Any

import pytest

from tests.docs.pages import ROOT

pytest.importorskip("mkdocs", reason="only `make site` installs the generator of the site, and runs this")

_LOADED = re.compile(r"<(?:script|img|iframe|source|video)[^>]*\ssrc=\"?(https?:)?//|<link[^>]*href=\"?(https?:)?//")
_STYLED = re.compile(r"(?:@import|url\()\s*['\"]?(?:https?:)?//")


def config(folder: Path) -> Any:
    from mkdocs.config.base import load_config

    return load_config(str(ROOT / "mkdocs.yml"), site_dir=str(folder), plugins=["search", "offline"], strict=False)


def built(folder: Path) -> list[str]:
    """Build the site there; what the generator had to say of it."""
    from mkdocs.commands.build import build

    said: list[str] = []

    class Handler(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            said.append(record.getMessage())

    logger, handler = logging.getLogger("mkdocs"), Handler(logging.WARNING)
    logger.addHandler(handler)
    try:
        build(config(folder))
    finally:
        logger.removeHandler(handler)
    return said


def test_the_site_builds_without_a_warning_and_loads_nothing_from_elsewhere(tmp_path: Path) -> None:
    said = built(tmp_path)
    pages = {path: path.read_text(encoding="utf-8") for path in tmp_path.rglob("*.html")}
    styles = {path: path.read_text(encoding="utf-8") for path in tmp_path.rglob("*.css")}

    assert said == []
    assert len(pages) > 60
    assert (tmp_path / "search" / "search_index.js").exists(), "the search from disk has no index"
    assert 'src="iframe-worker.js"' in pages[tmp_path / "index.html"]
    assert "examples/comparison/with_langchain.py" in pages[tmp_path / "comparison.html"]
    assert [path.name for path, text in pages.items() if _LOADED.search(text)] == []
    assert [path.name for path, text in styles.items() if _STYLED.search(text)] == []
    index = json.loads((tmp_path / "search" / "search_index.json").read_text(encoding="utf-8"))
    less = {entry["location"].partition("/")[0] for entry in index["docs"] if entry.get("boost", 1) < 1}
    assert less == {"design", "reference", "migrating"}, "guides come first in the search"
