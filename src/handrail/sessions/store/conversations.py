"""Conversations on disk: a folder for each, long and binary contents shared between them.

    conversations/<id>/messages.jsonl    one message a line
    conversations/<id>/metadata.toml     title, times, and how much of the lines counts
    content/<ab>/<sha256>                texts of 1,024 bytes or more, images, files

Saving a longer version of what is there adds lines; anything else writes the file
again. Either way the old conversation or the new one is there, whenever the machine
stops. Several processes may share a folder; who saves last is believed. Every
method blocks: call them from a thread if an event loop must go on meanwhile.
"""

from __future__ import annotations

import fcntl
import logging
import os
import re
import shutil
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from handrail.core.durable_files import make_folder, write_atomically
from handrail.core.errors import UsageError
from handrail.core.ids import NewId, new_id
from handrail.core.keyfile import sync_folder
from handrail.core.messages import Conversation, InvocationMessage, Message, ResultMessage, UserMessage
from handrail.core.ports import Clock, SystemClock
from handrail.sessions.store import metadata
from handrail.sessions.store.content import ContentError, ContentFolder
from handrail.sessions.store.message_lines import Get, digests, pack_message, unpack_message
from handrail.sessions.store.metadata import ConversationChoices, ConversationMetadata

logger = logging.getLogger(__name__)

_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,127}")
_TITLE = 60
_DELETED = ".deleted"
_MOST_SAVED = 16
"""Conversations kept in memory, so that adding to one does not read it again; the one used longest ago goes first."""


def check_conversation_id(id: str) -> None:
    """Refuse, with a `UsageError`, an id that cannot name a folder; it may come to one."""
    if not _ID.fullmatch(id) or id.endswith(_DELETED):
        raise UsageError(f"conversation id {id!r} cannot name a folder; take A-Z a-z 0-9 _ . - only")


RawConversation = tuple[ConversationMetadata, Sequence[bytes], Mapping[str, bytes]]
"""A conversation as it is stored: what is known of it, its lines, and the contents by their digests."""


class ConversationMatch(Struct, frozen=True):
    """A place where a text occurs."""

    id: str
    title: str
    index: int
    """The number of the message; -1 is the title."""
    excerpt: str


class _SavedRevision(Struct, frozen=True):
    """What this process knows to be on disk."""

    revision: int
    messages: tuple[Message, ...]
    size: int


class ConversationStore:
    """Conversations in a folder, one file each; long texts, images and files are kept once."""

    def __init__(self, folder: str | Path, *, clock: Clock = SystemClock(), new_id: NewId = new_id) -> None:
        self._folder = Path(folder)
        self._content = ContentFolder(self._folder / "content")
        self._clock = clock
        self._new_id = new_id
        self._saved: dict[str, _SavedRevision] = {}
        self._read_before: dict[str, tuple[tuple[int, int, int], ConversationMetadata]] = {}
        """For lists: how a file of metadata looked, and what it said."""

    def save(
        self,
        id: str,
        conversation: Conversation,
        *,
        title: str | None = None,
        forked_from: str | None = None,
        chosen: ConversationChoices | None = None,
    ) -> ConversationMetadata:
        """Make this the conversation of that id. Without a title, the one it has or its first words; what was chosen
        for it stays so unless it is given."""
        with self._locked():
            return self._save(id, conversation, title, forked_from, chosen)

    def load(self, id: str) -> Conversation:
        """The conversation of this id.

        Raises:
            UsageError: There is none of that id.
            ContentError: It is there, but damaged.
        """
        with self._locked(fcntl.LOCK_SH):
            return Conversation(self._saved_revision(id, self._about(id)).messages)

    def about(self, id: str) -> ConversationMetadata:
        with self._locked(fcntl.LOCK_SH):
            return self._about(id)

    def fork(self, id: str, *, upto: int | None = None) -> str:
        """Makes another conversation that begins as this one does; its long contents are not copied."""
        with self._locked():
            about = self._about(id)
            messages = self._saved_revision(id, about).messages[:upto]
            forked = self._new_id("conversation")
            self._save(forked, Conversation(messages), about.title, id)
        return forked

    def list(self) -> tuple[ConversationMetadata, ...]:
        """All conversations, the last saved first; a damaged one is listed with its `problem`."""
        with self._locked(fcntl.LOCK_SH):
            return self._all()

    def search(self, words: str) -> tuple[ConversationMatch, ...]:
        """Where this text occurs, in whatever case, in titles and in what was said and answered. Of one that is
        damaged only the title is read. Nobody who saves waits for more than the reading of one file."""
        needle = words.casefold()
        found: list[ConversationMatch] = []
        for about in self.list():
            titled = excerpt(about.title, needle)
            if titled is not None:
                found.append(ConversationMatch(about.id, about.title, -1, titled))
            if not about.problem:
                found += (ConversationMatch(about.id, about.title, *place) for place in self._places(about.id, needle))
        return tuple(found)

    def delete(self, id: str) -> None:
        """Remove a conversation, damaged or not. `sweep()` then removes the contents that no other one has."""
        with self._locked():
            place = self._file(id).parent
            gone = place.with_name(f"{id}{_DELETED}")
            shutil.rmtree(gone, ignore_errors=True)  # one that was cut off may have left it
            place.rename(gone)
            sync_folder(place.parent)
            shutil.rmtree(gone)
            self._saved.pop(id, None)

    def sweep(self) -> int:
        """Remove contents that belong to no conversation, and say how many that were.

        Raises:
            ContentError: One is damaged, and nobody knows what belongs to it: nothing is removed.
        """
        # Read one by one first: who saves meanwhile waits only until those that changed since are read again.
        before = {about.id: self._used(about.id) for about in self.list()}
        with self._locked():
            used: set[str] = set()
            for id in self._ids():
                about, found = before.get(id, (None, ()))
                now = self._listed(id)
                used.update(found if about == now else _referred(self._lines(id, self._about(id))))
            return self._content.sweep(used)

    def _used(self, id: str) -> tuple[ConversationMetadata | None, tuple[str, ...]]:
        """What one refers to, as it stood then."""
        try:
            with self._locked(fcntl.LOCK_SH):
                about = self._about(id)
                lines = self._lines(id, about)
        except UsageError:  # it was deleted meanwhile
            return None, ()
        return about, tuple(_referred(lines))

    def _places(self, id: str, needle: str) -> tuple[tuple[int, str], ...]:
        """The places in one conversation. A search does not end at what is damaged, or was deleted meanwhile."""
        try:
            with self._locked(fcntl.LOCK_SH):
                lines = self._lines(id, self._about(id))
            try:
                return tuple(find_matches(lines, needle, self._content.get))
            except ContentError:  # it may have been changed since, and its contents swept: look again, alone with it
                with self._locked(fcntl.LOCK_SH):
                    return tuple(find_matches(self._lines(id, self._about(id)), needle, self._content.get))
        except UsageError:
            return ()
        except ContentError:
            logger.warning("conversation %s is not searched: it cannot be read", id, exc_info=True)
            return ()

    # ── for copies ───────────────────────────────────────────────────────────────────

    @contextmanager
    def unchanging(self) -> Iterator[None]:
        """Holds the lock of the folder, so that nobody saves in it until the block ends."""
        with self._locked(fcntl.LOCK_SH):
            yield

    def raw(self) -> Iterator[RawConversation]:
        """Every conversation as it is stored, with the contents that it refers to.

        Raises:
            ContentError: One is damaged.
        """
        for id in self._ids():
            with self._locked(fcntl.LOCK_SH):
                about = self._about(id)
                lines = self._lines(id, about)
                yield about, lines, {digest: self._content.get(digest) for digest in set(_referred(lines))}

    def put_raw(self, about: ConversationMetadata, lines: Sequence[bytes], contents: Mapping[str, bytes]) -> None:
        """Have a conversation as another store has it; there is none of its id yet."""
        with self._locked():
            folder = self._place(about.id)
            make_folder(folder)
            for data in contents.values():
                self._content.put(data)
            write_atomically(folder / "messages.jsonl", b"".join(lines))
            metadata.write(folder / "metadata.toml", replace(about, bytes=sum(map(len, lines))))

    # ── under the lock ───────────────────────────────────────────────────────────────

    def _save(
        self,
        id: str,
        conversation: Conversation,
        title: str | None,
        forked_from: str | None,
        chosen: ConversationChoices | None = None,
    ) -> ConversationMetadata:
        folder, now = self._place(id), metadata.moment(self._clock.now())
        make_folder(folder)
        about = ConversationMetadata(id=id, created=now, updated=now, forked_from=forked_from)
        known = None
        if (folder / "metadata.toml").exists():
            about = self._about(id)
            known = self._saved_revision(id, about)
        said = conversation.messages
        adds = known is not None and said[: len(known.messages)] == known.messages
        size = self._add(folder, said, known) if known is not None and adds else self._rewrite(folder, said, about)
        about = replace(
            about,
            title=(about.title or first_words(conversation)) if title is None else valid_title(title),
            updated=now,
            messages=len(said),
            bytes=size,
            revision=about.revision + 1,
            chosen=about.chosen if chosen is None else chosen,
        )
        metadata.write(folder / "metadata.toml", about)
        self._remember(id, _SavedRevision(about.revision, said, size))
        return about

    def _add(self, folder: Path, said: tuple[Message, ...], known: _SavedRevision) -> int:
        lines = self._packed(said[len(known.messages) :])
        _write_behind(folder / "messages.jsonl", known.size, lines)
        return known.size + len(lines)

    def _rewrite(self, folder: Path, said: tuple[Message, ...], about: ConversationMetadata) -> int:
        """Two files cannot change at once. So first the whole old file is made to count, then it is exchanged."""
        lines, path = self._packed(said), folder / "messages.jsonl"
        if about.revision:
            if about.bytes is not None:
                _write_behind(path, about.bytes, b"")
            metadata.write(folder / "metadata.toml", replace(about, bytes=None))
        write_atomically(path, lines)
        return len(lines)

    def _packed(self, messages: tuple[Message, ...]) -> bytes:
        return b"".join(pack_message(message, self._content.put) + b"\n" for message in messages)

    def _saved_revision(self, id: str, about: ConversationMetadata) -> _SavedRevision:
        saved = self._saved.get(id)
        if saved is None or saved.revision != about.revision or saved.size != about.bytes:
            saved = self._read(id, about)
        self._remember(id, saved)
        return saved

    def _remember(self, id: str, saved: _SavedRevision) -> None:
        self._saved.pop(id, None)
        self._saved[id] = saved
        for oldest in list(self._saved)[:-_MOST_SAVED]:
            self._saved.pop(oldest, None)

    def _read(self, id: str, about: ConversationMetadata) -> _SavedRevision:
        lines = self._lines(id, about)
        messages = tuple(unpack_message(line, self._content.get) for line in lines)
        return _SavedRevision(about.revision, messages, sum(map(len, lines)))

    def _lines(self, id: str, about: ConversationMetadata) -> tuple[bytes, ...]:
        path = self._place(id) / "messages.jsonl"
        try:
            data = path.read_bytes()
        except OSError as error:
            raise ContentError(f"{str(path)!r} cannot be read ({error.strerror}); restore it from a copy") from error
        if about.bytes is not None and len(data) < about.bytes:
            raise ContentError(f"{str(path)!r} is cut off: {len(data)} of {about.bytes} bytes; restore it from a copy")
        return tuple(data[: about.bytes].splitlines(keepends=True))

    def _about(self, id: str) -> ConversationMetadata:
        return metadata.read(self._file(id))

    def _file(self, id: str) -> Path:
        path = self._place(id) / "metadata.toml"
        if not path.exists():
            raise UsageError(f"there is no conversation {id!r} in {str(self._folder)!r}")
        return path

    def _listed(self, id: str) -> ConversationMetadata:
        path = self._file(id)
        # A file is never changed, only exchanged: one that looks the same is the same.
        stat = path.stat()
        looks = stat.st_ino, stat.st_mtime_ns, stat.st_size
        known = self._read_before.get(id)
        if known is None or known[0] != looks:
            try:
                known = looks, metadata.read(path)
            except ContentError as error:
                return metadata.damaged(path, error)
            self._read_before[id] = known
        return known[1]

    def _all(self) -> tuple[ConversationMetadata, ...]:
        ids = self._ids()
        found = [self._listed(id) for id in ids]
        for gone in self._read_before.keys() - set(ids):
            self._read_before.pop(gone, None)
        return tuple(sorted(found, key=lambda each: (each.updated, each.id), reverse=True))

    def _ids(self) -> tuple[str, ...]:
        found = (self._folder / "conversations").glob("*/metadata.toml")
        return tuple(sorted(path.parent.name for path in found if path.parent.suffix != _DELETED))

    def _place(self, id: str) -> Path:
        check_conversation_id(id)
        return self._folder / "conversations" / id

    @contextmanager
    def _locked(self, how: int = fcntl.LOCK_EX) -> Iterator[None]:
        """The folder to ourselves, or shared with other readers."""
        make_folder(self._folder)
        handle = os.open(self._folder / ".lock", os.O_RDWR | os.O_CREAT, 0o600)
        try:
            fcntl.flock(handle, how)
            yield
        finally:
            os.close(handle)


def _write_behind(path: Path, size: int, lines: bytes) -> None:
    """Put lines behind so many bytes. What lies there was never saved: the machine stopped while it was written."""
    with path.open("r+b") as file:
        file.truncate(size)
        file.seek(size)
        file.write(lines)
        file.flush()
        os.fsync(file.fileno())


def _referred(lines: tuple[bytes, ...]) -> Iterator[str]:
    return (digest for line in lines for digest in digests(line))


def first_words(conversation: Conversation) -> str:
    said = (message.text for message in conversation.messages if isinstance(message, UserMessage))
    line = " ".join(valid_title(next(said, "")).split())
    return line if len(line) <= _TITLE else line[: _TITLE - 1] + "…"


def valid_title(text: str) -> str:
    """A title is for people: what is no character becomes a question mark."""
    return text.encode("utf-8", "replace").decode()


_AROUND = 40
_OF_JSON = frozenset('"\\{}[]:,')
"""Letters that stand otherwise in a line than in what a message says."""


def find_matches(lines: Iterable[bytes], needle: str, get: Get) -> Iterator[tuple[int, str]]:
    """The numbers of the messages that say it, each with the words around it. The needle is in folded case.

    Raises:
        ContentError: A line cannot be read.
    """
    is_plain = needle.isprintable() and needle == needle.strip() and _OF_JSON.isdisjoint(needle)
    for index, line in enumerate(lines):
        if not is_plain or _may_say(line, needle):
            text = _text(unpack_message(line, get))
            if (found := excerpt(text, needle)) is not None:
                yield index, found


def excerpt(text: str, needle: str) -> str | None:
    at = text.casefold().find(needle)
    if at < 0:
        return None
    return " ".join(text[max(0, at - _AROUND) : at + len(needle) + _AROUND].split())


def _may_say(line: bytes, needle: str) -> bool:
    """Long texts are elsewhere, and a text in several parts is read as one."""
    return b'"$text"' in line or line.count(b'"text":') > 1 or needle in line.decode("utf-8", "replace").casefold()


def _text(message: Message) -> str:
    match message:
        case ResultMessage(result=result):
            return result.text
        case InvocationMessage():
            return ""
    return message.text
