"""Ranks guides before decisions, the reference and comparisons with other frameworks in the search of the site."""

from __future__ import annotations

from typing import Any

LESS = {"design/": 0.2, "reference/": 0.1, "migrating/": 0.6}
"""How much the matches in the pages of a folder count."""


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    for folder, boost in LESS.items():
        if page.file.src_uri.startswith(folder):
            page.meta.setdefault("search", {"boost": boost})
    return markdown
