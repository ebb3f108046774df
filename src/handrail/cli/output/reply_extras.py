"""What a service adds to a reply, at the command line: numbered sources, calls that it ran, pictures and files."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count, islice
from pathlib import Path

from handrail.cli import text
from handrail.core.display import safe_media_name
from handrail.core.footnotes import FootnoteSource, FootnoteSourceList
from handrail.core.messages import Citation, Media, ServiceCall

_WIDE = 160
_WORDS = 80
"""Characters of the cited words."""
_TRIES = 1_000
"""Names that are tried for one file."""


class ReplySources:
    """The sources of one reply while it is written."""

    def __init__(self) -> None:
        self._listed = FootnoteSourceList()
        self._pieces: list[str] = []
        self._length = 0
        self._words: dict[int, str] = {}
        """What a source supports, by its number, where no number could be written behind it."""

    def said(self, piece: str) -> None:
        self._pieces.append(piece)
        self._length += len(piece)

    def mark(self, citation: Citation) -> str:
        """What to write now: the number of the source if the words that it supports were just written, else nothing."""
        number = self._listed.add(citation)
        if number is None or citation.end is None:
            return ""
        if citation.end == self._length:
            return f"[{number}]"
        if number not in self._words:
            self._pieces = ["".join(self._pieces)]
            self._words[number] = self._pieces[0][citation.start or 0 : citation.end].strip()
        return ""

    def lines(self) -> Iterator[str]:
        """The list that stands below the reply."""
        for source in self._listed.sources:
            yield f"[{source.number}] {_source(source)}"
            if words := self._words.get(source.number):
                yield f"    for “{text.printable(text.short(words, _WORDS))}”"
        if self._listed.left_out:
            yield f"and {text.count_text(self._listed.left_out, 'more source')}"


def _source(source: FootnoteSource) -> str:
    title = text.printable(text.short(source.title.strip(), _WIDE))
    address = text.printable(text.short(source.url, 500))
    return f"{title} <{address}>" if title and address else title or address or "a source without a name"


def service_call_line(call: ServiceCall) -> str:
    """A call that the service ran, in one line."""
    given = ""
    if call.arguments is not None:
        as_text = isinstance(call.arguments, str)
        given = text.printable(text.short(call.arguments, _WIDE)) if as_text else text.inline(call.arguments, _WIDE)
    end = "failed" if call.failed else "done"
    return f"⇢ {text.printable(text.short(call.name, _WIDE))} {given}".rstrip() + f" ({end}, run by the service)"


def media_line(media: Media) -> str:
    """A picture or a file: its name, its type and its size, or where it is."""
    name = safe_media_name(media.name, media.media_type)
    if media.data is None:
        return (
            f"{text.printable(name)} ({text.printable(media.media_type)}) at {text.printable(media.url or 'nowhere')}"
        )
    return f"{text.printable(name)} ({text.printable(media.media_type)}, {text.count_text(len(media.data), 'byte')})"


def save_media(media: Media, folder: Path) -> Path:
    """Write it to a new file in the folder; no file that is there is changed.

    Raises:
        OSError: It cannot be written.
    """
    folder.mkdir(parents=True, exist_ok=True)
    name = Path(safe_media_name(media.name, media.media_type))
    for number in islice(count(1), _TRIES):
        path = folder / (name.name if number == 1 else f"{name.stem}-{number}{name.suffix}")
        try:
            with path.open("xb") as file:
                file.write(media.data or b"")
        except FileExistsError:
            continue
        return path
    raise FileExistsError(f"there are {_TRIES} files called {name.name!r} already")
