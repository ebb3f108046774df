"""What was said: a person's words, the model's, and what either was given to read.

Only the model's words are read as Markdown, and only as text with a few styles: HTML stays text, an address is never
opened by itself, and what a character reference stands for is made as visible as everything else.
"""

from __future__ import annotations

from collections.abc import Iterable

from markdown_it import MarkdownIt
from markdown_it.rules_core import StateCore
from markdown_it.token import Token
from textual import on
from textual.app import ComposeResult
from textual.containers import Vertical
from textual.content import Content
from textual.widgets import Markdown, Static

from handrail.core.display import printable, printable_lines
from handrail.core.footnotes import FootnoteMark, FootnoteSource, with_marks
from handrail.desk.tui.formatting import MUTED, count_text, inline, line, plain
from handrail.desk.values import ClippedText, ConversationItem, ItemAttachment, ShownServiceCall

_KEY = ", Ctrl+S saves it"
WHO = {"user": "you", "assistant": "model", "supervisor": "instruction", "document": "document"}


class ModelText(Markdown):
    """Markdown of a model, whole or as it comes."""

    def __init__(self, text: str = "") -> None:
        super().__init__(printable_lines(text), parser_factory=_parser, open_links=False)

    async def more(self, text: str) -> None:
        await self.append(printable_lines(text))

    @on(Markdown.LinkClicked)
    def told(self, event: Markdown.LinkClicked) -> None:
        """Where it leads is shown; going there is the person's to do."""
        event.stop()
        self.notify(plain(event.href).plain, title="The link leads to", markup=False)


class MessageWidget(Vertical):
    """One message."""

    def __init__(self, item: ConversationItem) -> None:
        super().__init__(classes=f"said {item.kind}")
        self.index = item.index
        self._item = item

    def compose(self) -> ComposeResult:
        item = self._item
        yield Static(plain(_head(item), "bold"), classes="who")
        text = item.text.text if item.text is not None else ""
        for call in item.service_calls:
            yield service_call_note(call)
        if item.kind == "assistant":
            yield ModelText(_numbered(text, item.marks))
        elif text:
            yield Static(plain(text), classes="text")
        if item.text is not None and item.text.whole:
            yield Static(plain(_cut(item.text)), classes="note")
        for part in item.parts:
            yield Static(plain(f"📎 {part_words(part)}{_KEY if item.kind == 'assistant' else ''}"), classes="note")
        for source in item.sources:
            yield Static(_source(source), classes="note source")
        if item.more_sources:
            yield Static(plain(f"and {count_text(item.more_sources, 'more source')}"), classes="note")


def service_call_note(call: ShownServiceCall) -> Static:
    """A call that the service ran, in a line."""
    end, style = ("failed", "$text-error") if call.failed else ("done", MUTED)
    given = "" if call.arguments is None else f" {inline(call.written or call.arguments, 80)}"
    said = f"\n  {line(call.result.text, 100)}" if call.result is not None and call.result.text else ""
    name, how = line(call.name, 40), f" · run by the service, {end}"
    return Static(
        Content.assemble("⇢ ", (name, "bold"), (given, MUTED), (how, style), (said, MUTED)), classes="note service-call"
    )


def _numbered(text: str, marks: Iterable[FootnoteMark]) -> str:
    """The text with the numbers of its sources, which no Markdown makes anything else of."""
    units = text.encode("utf-16-le", "surrogatepass")
    near = (mark for mark in marks if 2 * mark.at <= len(units))  # the others are behind where the text is cut
    places = (FootnoteMark(len(units[: 2 * mark.at].decode("utf-16-le", "replace")), mark.number) for mark in near)
    return with_marks(text, places, lambda number: f"\\[{number}\\]")


def _source(source: FootnoteSource) -> Content:
    title = line(source.title, 120) or line(source.url, 120) or "a source without a name"
    where = f"  {line(source.url, 200)}" if source.title.strip() and source.url else ""
    quote = f"\n    “{line(source.quote, 160)}”" if source.quote else ""
    return Content.assemble((f"[{source.number}] ", "bold"), title, (where, MUTED), (quote, MUTED))


def _head(item: ConversationItem) -> str:
    name = f" {line(item.name, 60)}" if item.name else f" · {line(item.model, 40)}" if item.model else ""
    return f"{WHO.get(item.kind, item.kind)}{name}"


def _cut(text: ClippedText) -> str:
    return f"… the first {len(text.text):,} of {count_text(text.whole, 'character')}"


def part_words(part: ItemAttachment) -> str:
    """A picture or a file: its name, its type and its size."""
    size = f", {part.size:,} bytes" if part.size else ""
    return f"{line(part.name or part.url or 'attachment', 60)} ({line(part.media_type, 40)}{size})"


def _parser() -> MarkdownIt:
    parser = MarkdownIt("gfm-like", {"html": False, "linkify": False})
    parser.core.ruler.push("visible", _make_visible)
    return parser


def _make_visible(state: StateCore) -> None:
    """After character references were read: `&#27;` is as little an escape as the letter itself."""
    for token in _all(state.tokens):
        token.content = printable(token.content, keep="\n\t")
        for name in ("href", "src", "alt"):
            if name in token.attrs:
                token.attrs[name] = printable(str(token.attrs[name]))
        token.info = printable(token.info)


def _all(tokens: Iterable[Token]) -> Iterable[Token]:
    for token in tokens:
        yield token
        yield from _all(token.children or ())
