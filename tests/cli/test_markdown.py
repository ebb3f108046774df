"""Markdown of a model on a terminal: whole blocks, nothing hidden."""

from __future__ import annotations

import re

import pytest

from handrail.cli.output.markdown import MarkdownBlocks, render_markdown

_STYLES = re.compile(r"\x1b\[[0-9;]*m")
TEXT = "# Stock\n\nWe have **12**.\nAnd:\n\n- one\n- two\n\n```python\nx = 1\n\ny = 2\n```\n\nThat is `all`."


def shown(block: str) -> str:
    """Without styles."""
    return _STYLES.sub("", render_markdown(block, 60))


@pytest.mark.parametrize("size", [1, 7, len(TEXT)])
def test_a_block_is_given_once_it_is_whole_however_the_text_comes(size: int) -> None:
    blocks = MarkdownBlocks()

    given = [block for at in range(0, len(TEXT), size) for block in blocks.feed(TEXT[at : at + size])]

    code = "```python\nx = 1\n\ny = 2\n```"
    assert given == ["# Stock", "We have **12**.\nAnd:", "- one\n- two", code]
    assert (blocks.last_line, blocks.rest(), blocks.rest()) == ("That is `all`.", "That is `all`.", "")


def test_marks_become_styles() -> None:
    assert "\x1b[1m12\x1b[0m" in render_markdown("We have **12**.")
    assert shown("We have **12** of `all`.") == "We have 12 of all."
    assert shown("# Stock").strip() == "Stock"
    assert shown("- one\n- two") == " • one\n • two"
    assert "x = 1" in shown("```python\nx = 1\n```") and "python" not in shown("```python\nx = 1\n```")
    assert [line.split() for line in shown("|a|b|\n|-|-|\n|1|2|").splitlines() if "1" in line] == [["1", "2"]]


@pytest.mark.parametrize("hidden", ["<b>bold</b> <!-- not for people -->", "<div>\nblock\n</div>"])
def test_html_stands_there_as_it_was_written(hidden: str) -> None:
    assert shown(hidden).split() == hidden.split()


def test_a_link_says_where_it_goes_and_cannot_be_clicked() -> None:
    drawn = render_markdown("[your bank](https://evil.example/x)")

    assert shown("[your bank](https://evil.example/x)") == "your bank (https://evil.example/x)"
    assert "\x1b]8" not in drawn
