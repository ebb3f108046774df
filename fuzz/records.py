"""What proves something: notes, keys, receipts, Merkle proofs, bundles, the journal's file.

The laws: what was changed is refused or reported, and never by an error of another
kind; a damaged journal is a `JournalError` or an audit that says what is wrong; and
what still verifies says exactly what it said before.
"""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Callable
from contextlib import closing, suppress
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from hypothesis import strategies as st

from fuzz.law import Target, outcome, scratch
from fuzz.mutate import data, texts
from handrail.core.errors import BrokenProof, JournalError, UsageError
from handrail.journal import verifier
from handrail.journal.auditing import Receipt, audit, export_run, prove
from handrail.journal.entry import decode_event, leaf_position
from handrail.journal.journal import SqliteJournal
from handrail.journal.keys import Signer, Verifier
from handrail.journal.merkle import Frontier, leaf_hash, root
from handrail.journal.note import Checkpoint, open_note, sign
from handrail.journal.reader import JournalReader
from tests.journal.event_samples import finished, intended, settled, started

SIGNER = Signer.from_seed("example.org/fuzz", b"\x07" * 32)
RUN = "run-1"
NOTE = sign(Checkpoint("example.org/fuzz", 3, root([leaf_hash(b"a"), leaf_hash(b"b"), leaf_hash(b"c")])), SIGNER)


@cache
def journal() -> bytes:
    """The bytes of a small journal that is in order and closed."""
    return _made()[0]


@cache
def receipt() -> str:
    return _made()[1]


@cache
def bundle() -> dict[str, bytes]:
    """The files of a bundle by their names."""
    return _made()[2]


@cache
def _made() -> tuple[bytes, str, dict[str, bytes]]:
    with scratch() as folder:
        path = folder / "journal.db"
        asyncio.run(_write(path))
        told = prove(path, "call-1", signer=SIGNER).to_json()
        exported = export_run(path, RUN, folder / "bundle", signer=SIGNER)
        files = {
            str(each.relative_to(exported)): each.read_bytes() for each in sorted(exported.rglob("*")) if each.is_file()
        }
        return path.read_bytes(), told, files


async def _write(path: Path) -> None:
    async with await SqliteJournal.open(path, signer=SIGNER, random=lambda count: b"\x01" * count) as journal:
        await journal.append(started())
        for number in range(4):
            await journal.append(intended(number))
            await journal.append(settled(number, content="x" * (verifier.INLINE + 1 if number == 2 else 3)))
        await journal.append(finished())


def _note(text: str) -> None:
    found = outcome(lambda: open_note(text, [SIGNER.verifier]), BrokenProof)
    if isinstance(found, Checkpoint):
        assert found.text() in NOTE, "a note that was changed verifies"
    outcome(lambda: Checkpoint.parse(text), BrokenProof)
    checked = outcome(lambda: verifier.parse_note(text.encode(errors="surrogatepass")), verifier.InvalidBundle)
    assert isinstance(checked, tuple)


def _key(text: str) -> None:
    ours = outcome(lambda: Verifier.parse(text), UsageError)
    theirs = outcome(lambda: verifier.parse_key(text), verifier.InvalidBundle)
    if isinstance(ours, Verifier):
        assert (theirs.name, theirs.public) == (ours.name, ours.public), "two readers see two keys"


def _receipt(text: str) -> None:
    found = outcome(lambda: Receipt.from_json(text), BrokenProof)
    if isinstance(found, Receipt) and outcome(lambda: found.verify(SIGNER.verifier), BrokenProof) is None:
        right = Receipt.from_json(receipt())
        assert (found.index, found.leaf, found.call_id) == (right.index, right.leaf, right.call_id)
        assert found.body in (None, right.body), "a receipt that was changed verifies"


def _merkle(value: tuple[int, int, list[bytes], bytes]) -> None:
    index, size, proof, frontier = value
    leaves = [leaf_hash(bytes([number])) for number in range(7)]
    outcome(lambda: Frontier.load(size, frontier).root(), ValueError)
    if verifier.included(leaves[3], index, 7, proof, root(leaves)):
        assert index == 3, "a leaf is proven to stand where it does not"
    verifier.included(leaves[3], index, size, proof, root(leaves))


def _entry(value: tuple[bytes, bytes | None]) -> None:
    leaf, body = value
    outcome(lambda: leaf_position(leaf), JournalError)
    outcome(lambda: decode_event(leaf, body), JournalError)


def _bundle(value: tuple[str, bytes]) -> None:
    name, changed = value
    with scratch() as folder:
        for each, content in bundle().items():
            path = folder / each
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(changed if each == name else content)
        report = verifier.check(folder, SIGNER.verifier_key)
        verifier.describe(report), verifier.to_dict(report)
        if changed != bundle()[name]:
            assert report.problems or name in ("verify.py", "README.txt") or _same(name, changed), "a change verifies"


def _same(name: str, changed: bytes) -> bool:
    """Whether a change is one that no reader sees: what the file says is the same."""
    lines, right = changed.splitlines(), bundle()[name].splitlines()
    if name == "checkpoint":
        return verifier.parse_note(changed) == verifier.parse_note(bundle()[name])
    return name == "bundle.jsonl" and list(map(verifier.parse_object, lines)) == list(map(verifier.parse_object, right))


class Change(NamedTuple):
    """Another value in a row of a table, or no such row."""

    column: str
    row: int
    value: Any
    gone: bool


def _rows(changes: list[Change]) -> None:
    with scratch() as folder:
        path = folder / "journal.db"
        path.write_bytes(journal())
        with closing(sqlite3.connect(path)) as connection, connection:
            for change in changes:
                _apply(connection, change)
        _examine(path)


def _apply(connection: sqlite3.Connection, change: Change) -> None:
    table, _, column = change.column.partition(".")
    key = _KEYS[table]
    chosen = f"{key} IN (SELECT {key} FROM {table} ORDER BY {key} LIMIT 1 OFFSET ?)"
    with suppress(sqlite3.IntegrityError):  # what the tables themselves refuse
        if change.gone:
            connection.execute(f"DELETE FROM {table} WHERE {chosen}", [change.row])
        else:
            connection.execute(f"UPDATE {table} SET {column} = ? WHERE {chosen}", [change.value, change.row])


_KEYS = {"meta": "key", "entry": "seq", "span": "run", "checkpoint": "size"}
_COLUMNS = (
    "entry.seq", "entry.run", "entry.n", "entry.call", "entry.type", "entry.at", "entry.leaf", "entry.hash",
    "entry.salt", "entry.data", "meta.key", "meta.value", "span.run", "span.first", "span.last", "span.n",
    "checkpoint.size", "checkpoint.note", "checkpoint.frontier",
)  # fmt: skip
_VALUES = (None, 0, -1, 3, 2**62, 0.5, "", "x", "run-1", "call.settled", "$1", b"", b"x", b"{}", b"\xff" * 32, NOTE)
_changes = st.builds(
    Change,
    st.sampled_from(_COLUMNS),
    st.integers(0, 10),
    st.sampled_from(_VALUES),
    st.integers(0, 9).map(lambda n: n > 8),
)


def _journal(changed: bytes) -> None:
    with scratch() as folder:
        path = folder / "journal.db"
        path.write_bytes(changed)
        _examine(path)


def _examine(path: Path) -> None:
    report = outcome(lambda: audit(path, verifiers=[SIGNER.verifier]), JournalError)
    for look in _LOOKS:
        _look(path, look)
    if not isinstance(report, tuple) and report.ok:
        assert _told(path) == _right(), "a journal that was changed verifies"


def _look(path: Path, look: Callable[[JournalReader], Any]) -> None:
    def work() -> None:
        with JournalReader(path) as reader:
            look(reader)

    outcome(work, JournalError)


def _told(path: Path) -> list[Any]:
    with JournalReader(path) as reader:
        return list(reader.events(RUN))


@cache
def _right() -> list[Any]:
    with scratch() as folder:
        (folder / "journal.db").write_bytes(journal())
        return _told(folder / "journal.db")


_LOOKS: tuple[Callable[[JournalReader], Any], ...] = (
    lambda reader: list(reader.events()),
    lambda reader: list(reader.events(RUN)),
    lambda reader: reader.recent(3),
    lambda reader: reader.runs(),
    lambda reader: reader.calls(RUN),
    lambda reader: reader.find_call("call-1"),
    lambda reader: reader.pending(),
    lambda reader: (reader.origin, reader.verifier_key, reader.size(), reader.hashes(), reader.checkpoints()),
    lambda reader: reader.body(3),
)


def _entries() -> list[tuple[bytes, bytes | None]]:
    with scratch() as folder:
        (folder / "journal.db").write_bytes(journal())
        with JournalReader(folder / "journal.db") as reader:
            return [(entry.leaf, entry.data) for entry in reader.entries()]


@st.composite
def _changed_bundle(draw: st.DrawFn) -> tuple[str, bytes]:
    name = draw(st.sampled_from([name for name in sorted(bundle()) if name != "verify.py"]))
    return name, draw(data([bundle()[name]]))


_leaves = st.deferred(lambda: data([leaf for leaf, _ in _entries()]))
_bodies = st.deferred(lambda: st.none() | data([body[:500] for _, body in _entries() if body is not None]))
_numbers = st.integers(-1, 9)
_hashes = st.sampled_from([leaf_hash(bytes([number])) for number in range(7)]) | st.binary(max_size=40)
TARGETS = (
    Target("note", texts([NOTE]), _note),
    Target("key", texts([SIGNER.verifier_key]), _key),
    Target("receipt", st.deferred(lambda: texts([receipt()])), _receipt),
    Target("merkle", st.tuples(_numbers, _numbers, st.lists(_hashes, max_size=5), st.binary()), _merkle),
    Target("entry", st.tuples(_leaves, _bodies), _entry),
    Target("bundle", _changed_bundle(), _bundle, cost=4),
    Target("journal-rows", st.lists(_changes, min_size=1, max_size=3), _rows, cost=4),
    Target("journal", st.deferred(lambda: data([journal()])), _journal, cost=4),
)
