"""Conversations in the shared state of several replicas: the lines of each in order, and contents by their SHA-256.

The lines are those of the files on disk, so a conversation moves between both without being read. What is saved is
one transaction; a conversation that only grew has its new lines added.
"""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import Struct

from handrail.core.bounded_memory import BoundedMemory
from handrail.core.errors import UsageError
from handrail.core.ids import NewId, new_id
from handrail.core.messages import Conversation, Message
from handrail.core.ports import Clock, SystemClock
from handrail.sessions.store.content import ContentError
from handrail.sessions.store.conversations import (
    ConversationMatch,
    RawConversation,
    check_conversation_id,
    excerpt,
    find_matches,
    first_words,
    valid_title,
)
from handrail.sessions.store.message_lines import digests, pack_message, unpack_message
from handrail.sessions.store.metadata import ConversationChoices, ConversationMetadata, moment
from handrail.state.schema import Migration, StoreSchema
from handrail.state.topics import announce

if TYPE_CHECKING:
    import psycopg

    from handrail.state.database import StateDatabase

logger = logging.getLogger(__name__)

SCHEMA = StoreSchema(
    "conversations",
    (
        Migration(
            "0.1.0",
            """
            CREATE TABLE conversation (
                id TEXT PRIMARY KEY, title TEXT NOT NULL, created TIMESTAMPTZ NOT NULL, updated TIMESTAMPTZ NOT NULL,
                messages INTEGER NOT NULL, bytes BIGINT NOT NULL, revision BIGINT NOT NULL, forked_from TEXT,
                chosen TEXT NOT NULL
            );
            CREATE INDEX conversation_updated ON conversation (updated);
            CREATE TABLE conversation_line (
                conversation TEXT NOT NULL REFERENCES conversation ON DELETE CASCADE, number INTEGER NOT NULL,
                line BYTEA NOT NULL, PRIMARY KEY (conversation, number)
            );
            CREATE TABLE conversation_content (digest TEXT PRIMARY KEY, data BYTEA NOT NULL);
            CREATE TABLE conversation_content_use (
                conversation TEXT NOT NULL REFERENCES conversation ON DELETE CASCADE,
                digest TEXT NOT NULL REFERENCES conversation_content, PRIMARY KEY (conversation, digest)
            );
            CREATE INDEX conversation_content_user ON conversation_content_use (digest)
            """,
        ),
    ),
)
_COLUMNS = "id, title, created, updated, messages, bytes, revision, forked_from, chosen"
_LOCK = 1_212_239_443
"""The advisory lock of contents: who saves shares it, who removes what nobody uses has it alone."""
_MOST_SAVED = 16
CHANGED = "conversations"
"""The topic on which replicas tell each other the ids of conversations that they saved or deleted."""


class _Saved(Struct, frozen=True):
    """What this process knows to be saved."""

    revision: int
    messages: tuple[Message, ...]


class SharedConversations:
    """`Conversations` in a shared state, which its owner closes."""

    def __init__(self, database: StateDatabase, *, clock: Clock = SystemClock(), new_id: NewId = new_id) -> None:
        self._database = database
        self._clock = clock
        self._new_id = new_id
        self._saved: BoundedMemory[str, _Saved] = BoundedMemory(_MOST_SAVED, lru=True)
        database.migrate(SCHEMA)

    def save(
        self,
        id: str,
        conversation: Conversation,
        *,
        title: str | None = None,
        forked_from: str | None = None,
        chosen: ConversationChoices | None = None,
    ) -> ConversationMetadata:
        check_conversation_id(id)
        said, saved, now = conversation.messages, self._saved.get(id), moment(self._clock.now())
        begun = 0 if saved is None or said[: len(saved.messages)] != saved.messages else len(saved.messages)
        contents: dict[str, bytes] = {}
        added = [pack_message(message, _put_into(contents)) + b"\n" for message in said[begun:]]
        words = first_words(conversation)

        def work(connection: psycopg.Connection) -> ConversationMetadata | None:
            connection.execute("SELECT pg_advisory_xact_lock_shared(%s)", (_LOCK,))
            made = (id, now, now, forked_from, _encoded(ConversationChoices()))
            connection.execute(
                "INSERT INTO conversation VALUES (%s, '', %s, %s, 0, 0, 0, %s, %s) ON CONFLICT DO NOTHING", made
            )
            about = _about(connection, id, " FOR UPDATE")
            if begun and (saved is None or about.revision != saved.revision):
                return None  # another replica saved it since, and all of it must be compared
            kept = begun or _common(connection, id, added)
            _put_lines(connection, id, kept, added if begun else added[kept:], contents)
            renamed = (about.title or words) if title is None else valid_title(title)
            row = connection.execute(
                "UPDATE conversation SET title = %s, updated = %s, messages = %s, revision = revision + 1, chosen = %s,"
                " bytes = (SELECT coalesce(sum(length(line)), 0) FROM conversation_line WHERE conversation = %s)"
                f" WHERE id = %s RETURNING {_COLUMNS}",
                (renamed.replace("\0", "\ufffd"), now, len(said), _encoded(chosen or about.chosen), id, id),
            ).fetchone()
            announce(connection, CHANGED, id)
            return None if row is None else _metadata(row)

        about = self._database.write_now(work, serializable=False)
        if about is None:
            self._saved.pop(id, None)
            return self.save(id, conversation, title=title, forked_from=forked_from, chosen=chosen)
        self._saved[id] = _Saved(about.revision, said)
        return about

    def load(self, id: str) -> Conversation:
        check_conversation_id(id)
        saved = self._saved.get(id)

        def work(connection: psycopg.Connection) -> _Saved:
            about = _about(connection, id)
            if saved is not None and saved.revision == about.revision:
                return saved
            lines = _lines(connection, id)
            contents = _contents(connection, {digest for line in lines for digest in digests(line)})
            return _Saved(about.revision, tuple(unpack_message(line, _get_from(contents)) for line in lines))

        found = self._saved[id] = self._database.read_now(work)
        return Conversation(found.messages)

    def about(self, id: str) -> ConversationMetadata:
        check_conversation_id(id)
        return self._database.read_now(lambda connection: _about(connection, id))

    def fork(self, id: str, *, upto: int | None = None) -> str:
        about, conversation = self.about(id), self.load(id)
        forked = self._new_id("conversation")
        self.save(forked, Conversation(conversation.messages[:upto]), title=about.title, forked_from=id)
        return forked

    def list(self) -> tuple[ConversationMetadata, ...]:
        asked = f"SELECT {_COLUMNS} FROM conversation ORDER BY updated DESC, id DESC"
        return tuple(map(_metadata, self._database.read_now(lambda connection: connection.execute(asked).fetchall())))

    def search(self, words: str) -> tuple[ConversationMatch, ...]:
        needle = words.casefold()
        found: list[ConversationMatch] = []
        for about in self.list():
            if (titled := excerpt(about.title, needle)) is not None:
                found.append(ConversationMatch(about.id, about.title, -1, titled))
            found += (ConversationMatch(about.id, about.title, *place) for place in self._places(about.id, needle))
        return tuple(found)

    def delete(self, id: str) -> None:
        check_conversation_id(id)

        def work(connection: psycopg.Connection) -> None:
            if not connection.execute("DELETE FROM conversation WHERE id = %s", (id,)).rowcount:
                raise _unknown(id)
            announce(connection, CHANGED, id)

        self._database.write_now(work, serializable=False)
        self._saved.pop(id, None)

    def sweep(self) -> int:
        unused = "SELECT 1 FROM conversation_content_use u WHERE u.digest = c.digest"

        def work(connection: psycopg.Connection) -> int:
            connection.execute("SELECT pg_advisory_xact_lock(%s)", (_LOCK,))
            return connection.execute(f"DELETE FROM conversation_content c WHERE NOT EXISTS ({unused})").rowcount

        return self._database.write_now(work, serializable=False)

    def _places(self, id: str, needle: str) -> tuple[tuple[int, str], ...]:
        """The places in one conversation. A search does not end at what is damaged."""

        def work(connection: psycopg.Connection) -> tuple[tuple[int, str], ...]:
            def get(digest: str) -> bytes:
                return _get_from(_contents(connection, {digest}))(digest)

            return tuple(find_matches(_lines(connection, id), needle, get))

        try:
            return self._database.read_now(work)
        except ContentError:
            logger.warning("conversation %s is not searched: it cannot be read", id, exc_info=True)
            return ()


def insert_raw(
    connection: psycopg.Connection, about: ConversationMetadata, lines: Sequence[bytes], contents: Mapping[str, bytes]
) -> None:
    """Have a conversation as another store has it; there is none of its id yet."""
    size, chosen = sum(map(len, lines)), _encoded(about.chosen)
    row = (about.id, about.title.replace("\0", "\ufffd"), about.created, about.updated, len(lines), size)
    connection.execute(
        "INSERT INTO conversation VALUES (%s, %s, %s, %s, %s, %s, %s, %s, %s)",
        (*row, about.revision, about.forked_from, chosen),
    )
    _put_lines(connection, about.id, 0, lines, contents)


def read_raw(connection: psycopg.Connection) -> Iterator[RawConversation]:
    """Every conversation as it is stored, with the contents that it refers to.

    Raises:
        ContentError: One is damaged.
    """
    asked = f"SELECT {_COLUMNS} FROM conversation ORDER BY id"
    for about in map(_metadata, connection.execute(asked).fetchall()):
        lines = _lines(connection, about.id)
        contents = _contents(connection, {digest for line in lines for digest in digests(line)})
        yield about, lines, contents


def _put_into(contents: dict[str, bytes]) -> Callable[[bytes], str]:
    def put(data: bytes) -> str:
        digest = hashlib.sha256(data).hexdigest()
        contents[digest] = data
        return digest

    return put


def _get_from(contents: dict[str, bytes]) -> Callable[[str], bytes]:
    def get(digest: str) -> bytes:
        data = contents.get(digest)
        if data is None or hashlib.sha256(data).hexdigest() != digest:
            what = "is gone" if data is None else "was changed"
            raise ContentError(f"content {digest} of the shared state {what}; restore it from a backup")
        return data

    return get


def _about(connection: psycopg.Connection, id: str, lock: str = "") -> ConversationMetadata:
    row = connection.execute(f"SELECT {_COLUMNS} FROM conversation WHERE id = %s{lock}", (id,)).fetchone()
    if row is None:
        raise _unknown(id)
    return _metadata(row)


def _metadata(row: Sequence[Any]) -> ConversationMetadata:
    id, title, created, updated, messages, size, revision, forked_from, chosen = row
    return ConversationMetadata(
        id=id,
        title=title,
        created=_utc(created),
        updated=_utc(updated),
        messages=messages,
        bytes=size,
        revision=revision,
        forked_from=forked_from,
        chosen=msgspec.json.decode(chosen, type=ConversationChoices),
    )


def _utc(at: datetime) -> datetime:
    return moment(round(at.timestamp() * 1000))


def _lines(connection: psycopg.Connection, id: str) -> list[bytes]:
    asked = "SELECT line FROM conversation_line WHERE conversation = %s ORDER BY number"
    return [bytes(line) for (line,) in connection.execute(asked, (id,))]


def _common(connection: psycopg.Connection, id: str, lines: Sequence[bytes]) -> int:
    """The number of the first lines that are there already."""
    there = _lines(connection, id)
    pairs = enumerate(zip(there, lines, strict=False))
    return next((at for at, (old, new) in pairs if old != new), min(len(there), len(lines)))


def _put_lines(
    connection: psycopg.Connection, id: str, kept: int, lines: Sequence[bytes], contents: Mapping[str, bytes]
) -> None:
    """Put lines behind so many others; what was there in their place goes."""
    gone = connection.execute(
        "DELETE FROM conversation_line WHERE conversation = %s AND number >= %s", (id, kept)
    ).rowcount
    if gone:
        connection.execute("DELETE FROM conversation_content_use WHERE conversation = %s", (id,))
    with connection.cursor() as cursor:
        cursor.executemany(
            "INSERT INTO conversation_line VALUES (%s, %s, %s)",
            [(id, number, line) for number, line in enumerate(lines, kept)],
        )
        # In order, so that two who save the same contents never wait for each other in a circle.
        cursor.executemany(
            "INSERT INTO conversation_content VALUES (%s, %s) ON CONFLICT DO NOTHING", sorted(contents.items())
        )
        used = {digest for line in (_lines(connection, id) if gone else lines) for digest in digests(line)}
        cursor.executemany(
            "INSERT INTO conversation_content_use VALUES (%s, %s) ON CONFLICT DO NOTHING",
            [(id, digest) for digest in sorted(used)],
        )


def _contents(connection: psycopg.Connection, wanted: Iterable[str]) -> dict[str, bytes]:
    asked = "SELECT digest, data FROM conversation_content WHERE digest = ANY(%s)"
    return {digest: bytes(data) for digest, data in connection.execute(asked, ([*wanted],))}


def _encoded(chosen: ConversationChoices) -> str:
    return msgspec.json.encode(chosen).decode()


def _unknown(id: str) -> UsageError:
    return UsageError(f"there is no conversation {id!r} in the shared state")
