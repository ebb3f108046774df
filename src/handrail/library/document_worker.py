"""Reads one HTML or PDF file in a process of its own: bytes on standard input, JSON on standard output.

It is run as a file and knows nothing of handrail. It has limits on memory and processor
time and is killed when nobody waits, so that a hostile file harms only this process.
"""

from __future__ import annotations

import io
import json
import logging
import re
import resource
import sys
import warnings
from html.parser import HTMLParser
from typing import Any


def main() -> int:
    kind, (pages, characters, memory, seconds) = sys.argv[1], map(int, sys.argv[2:])
    if kind == "pdf" and not _can_read_pdf():  # loaded before the limits: they are for the file
        sys.stdout.write(json.dumps({"missing": True}))
        return 0
    for limit, most in ((resource.RLIMIT_AS, memory), (resource.RLIMIT_CPU, seconds), (resource.RLIMIT_FSIZE, 0)):
        resource.setrlimit(limit, (most, most))
    logging.disable()
    warnings.simplefilter("ignore")
    data = sys.stdin.buffer.read()
    try:
        said = _html(data) if kind == "html" else _pdf(data, pages, characters)
    except (MemoryError, ImportError):  # a module that is loaded late does not fit either
        said = {"error": "it needs too much memory"}
    except RecursionError:
        said = {"error": "it is nested too deeply"}
    except Exception as error:  # whatever a broken file makes of the library
        said = {"error": f"it is damaged ({type(error).__name__})"}
    sys.stdout.write(json.dumps(said))
    return 0


def _can_read_pdf() -> bool:
    try:
        import pypdf
    except ImportError:
        return False
    return bool(pypdf)


def _pdf(data: bytes, most_pages: int, most_characters: int) -> dict[str, Any]:
    import pypdf

    reader = pypdf.PdfReader(io.BytesIO(data))
    if reader.is_encrypted and not reader.decrypt(""):
        return {"error": "it is encrypted; remove its password first"}
    if len(reader.pages) > most_pages:
        return {"error": f"it has {len(reader.pages)} pages, and {most_pages} are the most"}
    texts: list[str] = []
    total = 0
    for page in reader.pages:
        texts.append(_unicode(page.extract_text() or ""))
        total += len(texts[-1])
        if total > most_characters:
            return {"error": f"its text is longer than {most_characters} characters"}
    title, year = _facts(reader)
    return {"pages": texts, "title": title, "year": year}


def _facts(reader: Any) -> tuple[str | None, int | None]:
    """What the file says of itself. It is often wrong or broken, and then says nothing."""
    try:
        facts = reader.metadata
        return (_unicode(str(facts.title)) if facts.title else None), (facts.creation_date and facts.creation_date.year)
    except Exception:
        return None, None


def _unicode(text: str) -> str:
    """A broken table of characters gives halves of surrogate pairs, which nothing can keep."""
    return text.encode("utf-8", "replace").decode("utf-8")


def _html(data: bytes) -> dict[str, Any]:
    reader = HtmlText()
    reader.feed(data.decode("utf-8", "replace"))
    reader.close()
    return {"pages": [reader.text], "title": reader.title or None, "year": None}


_UNREAD = frozenset({"script", "style", "template", "noscript", "svg"})
_HEADINGS = {f"h{level}": "#" * level for level in range(1, 7)}
_BLOCKS = {
    *("address", "article", "aside", "blockquote", "div", "footer", "header", "main", "nav", "section"),
    *("br", "dd", "dl", "dt", "figcaption", "hr", "li", "ol", "p", "pre", "table", "td", "th", "tr", "ul"),
    *_HEADINGS,
}


class HtmlText(HTMLParser):
    """What a person would read of a page; its headings become those of Markdown."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self._pieces: list[str] = []
        self._title: list[str] = []
        self._in_title = False
        self._unread: list[str] = []

    @property
    def text(self) -> str:
        lines = (" ".join(line.split()) for line in "".join(self._pieces).split("\n"))
        return "\n".join(line for line in lines if line)

    @property
    def title(self) -> str:
        return " ".join("".join(self._title).split())

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._in_title = tag == "title" and not self._unread  # a drawing may have titles too
        if tag in _UNREAD:
            self._unread.append(tag)
        elif tag in _BLOCKS:
            self._pieces.append(f"\n{_HEADINGS[tag]} " if tag in _HEADINGS else "\n")

    def handle_endtag(self, tag: str) -> None:
        self._in_title = False
        if tag in self._unread:
            del self._unread[self._unread.index(tag) :]
        elif tag in _BLOCKS:
            self._pieces.append("\n")

    def parse_marked_section(self, i: int, report: int = 1) -> int:
        """`<![…` is a comment to every browser. Some of Python's parsers raise an error instead."""
        return self.parse_bogus_comment(i, False)

    def handle_data(self, data: str) -> None:
        if self._in_title:
            self._title.append(data)
        elif not self._unread:
            # A line break in the source is none on the page.
            self._pieces.append(re.sub(r"\s+", " ", data))


if __name__ == "__main__":
    sys.exit(main())
