"""docs/configuration.md: the page has every key that a file may hold, and no other."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from handrail.config import approval_settings, load, mcp, network, rlm, standard

PAGE = (Path(__file__).parents[2] / "docs" / "configuration.md").read_text(encoding="utf-8")


def keys(heading: str) -> set[str]:
    """The first cells of the table under this head, without what stands before the last dot."""
    table = PAGE.partition(f"\n| {heading} | meaning | default |\n")[2].partition("\n\n")[0]
    cells = re.findall(r"^\| (`[^|]+`) \|", table, re.MULTILINE)
    return {name.rpartition(".")[2] for cell in cells for name in re.findall(r"`([^`]+)`", cell)}


@pytest.mark.parametrize(
    ("heading", "known"),
    [
        ("key of `oauth`", set(mcp._OAUTH)),
        ("key of `serve`", {*mcp.SERVE, *mcp.SERVE_TABLES}),
        ("key of `serve.converse`", set(mcp.CONVERSE)),
        ("key of `node`", {*network.NODE, *network.NODE_TABLES}),
        ("key of `services`", {*network.SERVICES, *network.SERVICE}),
        ("key of `rlm`", set(rlm.KEYS)),
        ("key of `approvals`", set(approval_settings.KEYS)),
        ("key of `standard.io`", set(standard.IO)),
        ("key of `standard.summarization`", {*standard.MODEL, *standard.SUMMARIZATION}),
    ],
)
def test_a_table_has_every_key_and_no_other(heading: str, known: set[str]) -> None:
    assert keys(heading) == known


def test_the_tables_of_servers_and_models_have_every_key() -> None:
    servers = PAGE.partition("## MCP servers\n")[2].partition("\n## ")[0]
    named = set(re.findall(r"^\| `([^`.]+)(?:\.NAME\.[a-z_]+)?` \|", servers, re.MULTILINE))

    assert named - set(mcp._OAUTH) == set(mcp._KEYS) - {"environment"}  # which is named beside `env`
    assert set(re.findall(r"^\| `models\.NAME\.([a-z_]+)` \|", PAGE, re.MULTILINE)) == set(load.MODEL)
