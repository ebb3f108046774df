"""HTML as text to read: headings, paragraphs, lists, tables by line, links with where they lead.

It is no browser and does not try to repair. It goes through the page once, so that
no page takes longer than its length.
"""

from __future__ import annotations

import html
import re
from urllib.parse import urljoin

_DROPPED = frozenset(
    {"script", "style", "noscript", "template", "svg", "iframe", "object", "textarea", "select", "head", "title"}
)
_RAW = frozenset({"script", "style", "textarea"})
"""The elements in which a `<` begins nothing."""
_LINES = (
    ("address", "aside", "body", "br", "caption", "dd", "details", "dialog", "div", "dt", "fieldset", "figcaption"),
    ("footer", "header", "hr", "html", "legend", "li", "main", "menu", "nav", "summary"),
    ("tbody", "tfoot", "thead", "tr"),
)
_PARTS = (
    ("article", "blockquote", "dl", "figure", "form", "h1", "h2", "h3", "h4", "h5", "h6", "ol", "p", "pre"),
    ("section", "table", "title", "ul"),
)
_GAP = {name: "\n" for names in _LINES for name in names} | {name: "\n\n" for names in _PARTS for name in names}
"""What stands before and behind an element that is a block."""
_NO_MORE = "(?![a-zA-Z0-9:-])"
"""Behind the name of an element: `</header>` does not end a `<head>`."""
_TAG = re.compile(r"</?([a-zA-Z][a-zA-Z0-9:-]*)")
_HREF = re.compile(r"""\shref\s*=\s*(?:"([^"]*)"|'([^']*)'|([^\s"'>]+))""", re.IGNORECASE)
_TITLE = re.compile(rf"<title{_NO_MORE}", re.IGNORECASE)
_END_OR_QUOTE = re.compile(r""">|=\s*(["'])""")
_ENDLESS_NUMBER = re.compile(r"&#([xX]?)[0-9a-fA-F]{12,};?")
"""A character by its number, which is none. Python would work on it for long, or not at all."""
_SPACES = re.compile(r"[ \t\r\n\f\v\xa0]+")
_GAPS = re.compile(r"\n{3,}")


def html_to_text(page: str, url: str = "") -> str:
    """The text of a page, with its title first."""
    reader = _HtmlReader(page, url)
    title, body = reader.title(), reader.text()
    return f"{title}\n\n{body}" if title and not body.startswith(f"# {title}") else body


class _HtmlReader:
    def __init__(self, page: str, url: str) -> None:
        self._page = page
        self._url = url
        self._out: list[str] = []
        self._pre = 0
        self._href: tuple[int, str] | None = None
        """Of the link that is open: where its words begin, and where it leads. One ends where the next begins."""
        self._endless: set[str] = set()
        """Elements and quotes that have no end any more: it is not looked for again."""

    def title(self) -> str:
        found = _TITLE.search(self._page)
        if found is None:
            return ""
        start = self._behind_tag(found.end())
        return _SPACES.sub(" ", _unescaped(self._page[start : start + 1_000].partition("<")[0])).strip()

    def text(self) -> str:
        page, at = self._page, 0
        while (begin := page.find("<", at)) >= 0:
            self._say(page[at:begin])
            at = self._markup(begin)
        self._say(page[at:])
        lines = (line.rstrip() for line in "".join(self._out).split("\n"))
        return _GAPS.sub("\n\n", "\n".join(lines)).strip()

    def _markup(self, begin: int) -> int:
        """The position at which the text goes on after this markup."""
        page = self._page
        if page.startswith("<!--", begin):
            return _behind(page, "-->", begin + 4)
        if page.startswith(("<!", "<?"), begin):
            return _behind(page, ">", begin)
        tag = _TAG.match(page, begin)
        if tag is None:
            self._say("<")
            return begin + 1
        end = self._behind_tag(tag.end())
        name, closing = tag[1].lower(), page[begin + 1] == "/"
        if not closing and name in _DROPPED:
            return end if page[end - 2] == "/" and name == "svg" else self._dropped(name, end)
        self._tag(name, closing, page[tag.end() : end])
        return end

    def _behind_tag(self, at: int) -> int:
        """Behind the `>` that ends a tag: one in a quoted value does not."""
        page = self._page
        while (found := _END_OR_QUOTE.search(page, at)) is not None:
            at, quote = found.end(), found[1]
            if quote is None:
                return at
            if quote not in self._endless:
                closed = page.find(quote, at)
                if closed < 0:  # a quote that somebody forgot ends nothing
                    self._endless.add(quote)
                else:
                    at = closed + 1
        return len(page)

    def _dropped(self, name: str, at: int) -> int:
        """Behind the end of an element that is not shown; of one without an end, only its tag is left out."""
        if name not in self._endless:
            closed = re.compile(f"</{name}{_NO_MORE}", re.IGNORECASE).search(self._page, at)
            if closed is not None:
                return _behind(self._page, ">", closed.end())
            self._endless.add(name)
        return len(self._page) if name in _RAW else at

    def _tag(self, name: str, closing: bool, inside: str) -> None:
        if name == "a":
            self._link(closing, inside)
        elif name in ("td", "th"):
            self._out.append("" if closing else " | ")
        elif name in _GAP:
            self._pre = max(0, self._pre + (-1 if closing else 1)) if name == "pre" else self._pre
            if name == "br" or len(_GAP[name]) > 1 or not (self._out and self._out[-1].endswith("\n")):
                self._out.append(_GAP[name])
            if not closing:
                self._out.append(_begins(name))

    def _link(self, closing: bool, inside: str) -> None:
        if self._href is not None:
            (start, target), self._href = self._href, None
            words = "".join(self._out[start:]).strip()
            if words and not target.startswith(("#", "javascript:", "data:")):
                self._out.append(f" ({_joined(self._url, target)})")
        href = None if closing else _HREF.search(f" {inside}")
        if href is not None:
            self._href = len(self._out), _unescaped(href[1] or href[2] or href[3] or "")

    def _say(self, text: str) -> None:
        if not text:
            return
        words = _unescaped(text)
        if not self._pre:
            words = _SPACES.sub(" ", words)
            if self._out and self._out[-1].endswith(("\n", " ")):
                words = words.lstrip(" ")
        self._out.append(words)


def _begins(name: str) -> str:
    if name == "li":
        return "- "
    return "#" * int(name[1]) + " " if len(name) == 2 and name[0] == "h" and name[1].isdigit() else ""


def _behind(page: str, mark: str, at: int) -> int:
    found = page.find(mark, at)
    return len(page) if found < 0 else found + len(mark)


def _unescaped(text: str) -> str:
    return html.unescape(_ENDLESS_NUMBER.sub("\ufffd", text))


def _joined(url: str, target: str) -> str:
    try:
        return urljoin(url, target.strip())
    except ValueError:
        return target.strip()
