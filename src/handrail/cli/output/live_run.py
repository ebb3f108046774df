"""A run as it happens: the model's words on stdout, what it does on stderr; or every event as a line of JSON."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from handrail.cli import text
from handrail.cli.output.markdown import MarkdownBlocks, render_markdown
from handrail.cli.output.reply_extras import ReplySources, media_line, save_media, service_call_line
from handrail.cli.output.view import answer, answer_json, tell, tell_dim
from handrail.core.calls import ToolResult
from handrail.core.events import (
    CallAmended,
    CallIntended,
    CallProgress,
    CallRequested,
    CallSettled,
    CitationAdded,
    ConfirmationAnswered,
    ConfirmationRequested,
    ConversationChanged,
    Event,
    MediaAdded,
    Notice,
    ReplyFinished,
    ServiceCallMade,
    TextDelta,
)
from handrail.core.messages import Media

_WIDE = 160


class LiveRunPrinter:
    """An `Emit`."""

    def __init__(self, *, as_json: bool, files: Path | None = None, markdown: bool = False) -> None:
        """`files` is the folder where pictures and files of the model are saved; without one they are named. With
        `markdown` the model's words are rendered, where a terminal shows them."""
        self._markdown = MarkdownBlocks() if markdown and sys.stdout.isatty() else None
        self._blocks = 0
        """Of this reply, on the terminal."""
        self._as_json = as_json
        self._files = files
        self._sources = ReplySources()
        self._open = False
        """Whether a line of the answer has no end yet."""
        self._passing = False
        """Whether a line that will be written over stands on the terminal."""
        self._held = ""
        self._stages: dict[str, str] = {}
        self._called: dict[str, str] = {}
        """Calls that stand there already, and as what. A call of the model is requested and then intended; one that a
        tool makes is only intended."""
        self.waiting: dict[str, ConfirmationRequested] = {}
        """Questions to a person that nobody has answered."""
        self.begun = False
        """Whether the record has something of the run."""
        self.unsaved = 0
        """Pictures and files that were only named."""

    async def __call__(self, event: Event) -> None:
        self._note(event)
        if self._as_json:
            answer_json(event)
        else:
            self._show(event)

    def _note(self, event: Event) -> None:
        match event:
            case ConversationChanged():
                self.begun = True
            case ConfirmationRequested():
                self.waiting[event.request] = event
            case ConfirmationAnswered():
                self.waiting.pop(event.request, None)
            case MediaAdded(media=media) if self._files is not None and media.data is not None:
                self._save(media, self._files)

    def _show(self, event: Event) -> None:
        match event:
            case TextDelta(text=piece):
                self._sources.said(piece)
                self._say(piece)
            case CitationAdded(citation=citation):
                self._say(self._sources.mark(citation))
            case ServiceCallMade(call=made):
                self._tell_line(service_call_line(made), dim=True)
            case MediaAdded(media=media) if self._files is None or media.data is None:
                self.unsaved += media.data is not None
                self._tell_line(f"* {media_line(media)}")
            case ReplyFinished():
                self.end_line()
                self._list_sources()
            case CallRequested(call=call):
                self._call(call.id, call.name, call.arguments)
            case CallIntended() if event.arguments is not None:  # they may be erased
                self._call(event.call_id, event.tool, event.arguments)
            case CallSettled(result=ToolResult() as result):
                name = self._called.get(event.call_id, event.tool)
                self._tell_line(f"← {text.printable(name)} {_result(result)}, {text.duration_text(event.duration_us)}")
            case CallAmended():
                name = self._called.get(event.call_id, event.tool)
                self._tell_line(f"← {text.printable(name)} later: {event.outcome}")
            case CallProgress():
                self._progress(event)
            case Notice(text=words):
                self._tell_line(f"! {text.printable(words)}")
            case ConfirmationAnswered() if event.by.startswith("rule "):
                word = "allowed" if event.decision == "allow" else "denied"
                self._tell_line(f"  {word} by {text.printable(event.by)}")

    def _call(self, id: str, name: str, arguments: dict[str, object] | str) -> None:
        if id not in self._called:
            self._called[id] = name
            self._tell_line(f"→ {text.printable(name)} {arguments_line(arguments)}")

    def _say(self, piece: str) -> None:
        self._wipe()
        piece, self._held = self._held + piece, ""
        if piece.endswith("\r"):  # the rest of a line end may come with the next piece
            piece, self._held = piece[:-1], "\r"
        if piece and self._markdown is not None:
            self._render(self._markdown.feed(text.printable_lines(piece)))
            self._pass_by(self._markdown.last_line)
        elif piece:
            click.echo(text.printable_lines(piece), nl=False)
            self._open = not piece.endswith("\n")

    def _render(self, blocks: list[str]) -> None:
        for block in blocks:
            self._wipe()
            if self._blocks:
                click.echo()
            self._blocks += 1
            click.echo(render_markdown(block))

    def end_line(self) -> None:
        """Let whatever comes next begin on a line of its own."""
        self._wipe()
        if self._markdown is not None:
            self._render([rest] if (rest := self._markdown.rest()).strip() else [])
            self._blocks = 0
        if self._open:
            click.echo()
        self._open, self._held = False, ""

    def _list_sources(self) -> None:
        sources, self._sources = self._sources, ReplySources()
        for number, line in enumerate(sources.lines()):
            if not number:
                answer()
            answer(line, "dim")

    def _save(self, media: Media, folder: Path) -> None:
        try:
            path = save_media(media, folder)
        except OSError as error:
            self._tell_line(f"! {media_line(media)} cannot be saved in {text.printable(str(folder))}: {error.strerror}")
            return
        self._tell_line(f"* {media_line(media)}, saved as {text.printable(str(path))}")

    def _tell_line(self, line: str, *, dim: bool = False) -> None:
        self._wipe()
        if (self._open or self._markdown is not None) and sys.stdout.isatty():
            self.end_line()
        (tell_dim if dim else tell)(line)

    def _progress(self, event: CallProgress) -> None:
        share = f" {event.current / event.total:.0%}" if event.current is not None and event.total else ""
        line = f"  {text.printable(event.tool)}{share} {text.printable(event.stage)}".rstrip()
        if sys.stderr.isatty():
            self._pass_by(line)
        elif event.stage and self._stages.get(event.call_id) != event.stage:
            self._stages[event.call_id] = event.stage
            tell(line)

    def _pass_by(self, line: str) -> None:
        """A line that the next one is written over."""
        if line and sys.stderr.isatty():
            self._wipe()
            click.echo(text.short(line, 78), nl=False, err=True)
            self._passing = True

    def _wipe(self) -> None:
        if self._passing:
            click.echo("\r\x1b[K", nl=False, err=True)
            self._passing = False


def arguments_line(arguments: dict[str, object] | str) -> str:
    """A call's arguments in one line: an object by its fields, text as the model wrote it."""
    if isinstance(arguments, dict):
        return text.inline(arguments, _WIDE)
    return text.printable(text.short(arguments, _WIDE))


def _result(result: ToolResult) -> str:
    note = ", from an earlier call" if result.reused_from is not None else ""
    return f"{result.outcome}: {text.inline(_without_outcome(result), _WIDE)}{note}"


def _without_outcome(result: ToolResult) -> object:
    """The content, but for the outcome that some errors begin with: it is told before."""
    content: object = result.content
    return content.removeprefix(f"{result.outcome}: ") if isinstance(content, str) and result.is_error else content
