#!/usr/bin/env python3
"""Verify a proof bundle of handrail: python3 verify.py [FOLDER] [--key VKEY] [--json]

This file stands alone: Python 3.9 or later, the standard library, nothing else. Each
bundle has a copy of it as `verify.py`, which is why it is one long file. It reads and
never writes. It answers 0 if all is well, 1 if something is wrong, 2 if it could not look.
"""

# It is a script: what it prints is its answer. Its first import is one that no file can stand in for, and it comes
# before the others; so there is no `from __future__`, which is a file too.
# ruff: noqa: T201

import sys

if __name__ == "__main__":
    # Whoever made a bundle may have put a `json.py` into it: nothing is imported from the folder of this file.
    _folder = __file__.replace("\\", "/").rpartition("/")[0]
    if not (sys.flags.isolated or getattr(sys.flags, "safe_path", False)):
        del sys.path[0]
    sys.path[:] = [
        entry for entry in sys.path if entry.replace("\\", "/").rstrip("/") not in ("", ".", _folder.rstrip("/"))
    ]

import argparse
import base64
import hashlib
import json
import re
from collections.abc import Callable, Iterable
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, NamedTuple, TypeVar
from urllib.parse import quote, unquote

T = TypeVar("T")

INLINE = 64 * 1024
"""A body of more bytes than this is a file of its own."""
SHOWN = 50
NOT_PROVEN = (
    "that the runtime told the truth when it wrote",
    "that nothing happened outside the runtime",
    "that a body marked as erased was erased by its owner",
    "that the run did not go on after this checkpoint",
)
PHASES = {
    "run.started": "admission",
    "run.resumed": "admission",
    "tools.offered": "enqueue",
    "confirmation.requested": "admission",
    "confirmation.answered": "admission",
    "call.asked": "admission",
    "call.intended": "apply",
    "call.settled": "stream",
    "call.amended": "stream",
    "reply.failed": "error",
    "run.finished": "finalize",
}
STATUSES = {
    "ok": "ok",
    "timeout": "timeout",
    "failed": "error",
    "cancelled": "error",
    "in_doubt": "error",
    "unknown_tool": "rejected",
    "invalid_arguments": "rejected",
    "forbidden": "rejected",
    "denied": "rejected",
    "needs_confirmation": "rejected",
    "limit": "rejected",
}
LEVELS = {"ok": "info", "rejected": "warn", "timeout": "error", "error": "error"}
BODY_KEYS = frozenset({"salt", "body", "attachment", "erased"})
RUN_LINE = re.compile("handrail-run ([^ ]*) (0|[1-9][0-9]{0,17})")
PROOF_KEYS = frozenset({"seq", "leaf", "proof"}) | BODY_KEYS


class InvalidBundle(ValueError):
    """Why something cannot be accepted, in words for people."""


class BundleProblem(NamedTuple):
    where: "int | str"
    """The entry, counted from 0 within the run, or the part of the bundle."""
    what: str

    def __str__(self) -> str:
        return f"{f'entry {self.where}' if isinstance(self.where, int) else self.where}: {self.what}"


class BundleReport(NamedTuple):
    run: str
    origin: str
    entries: int
    erased: int
    size: int
    """The size of the whole journal when the checkpoint was signed."""
    key: str
    key_given: bool
    """Whether the reader brought the key. A key out of the bundle proves little: its maker may have made both."""
    problems: tuple[BundleProblem, ...]


# ── what a record says, derived from its leaf and its body; the writer of bundles uses it too ──


class RecordFields:
    """Derives the readable fields of each record. It is fed a run in order, because an answer cites its intent."""

    def __init__(self) -> None:
        self._intents: dict[str, tuple[int, str | None]] = {}

    def of(self, leaf: dict[str, Any], body: "bytes | None") -> dict[str, Any]:
        kind, at = take(leaf, "type", str), take_count(leaf, "at")
        outcome = take(leaf, "outcome", str) if kind in ("call.settled", "call.amended") else "ok"
        status = STATUSES.get(outcome, "error")
        phase = PHASES.get(kind, "stream") if status == "ok" else "error"
        level = "warn" if kind == "reply.failed" else LEVELS[status]
        record = base(at, phase, level, leaf.get("run"), leaf.get("call_id"))
        if "outcome" in leaf:
            record["result"] = {"ok": True} if status == "ok" else {"ok": False, "error": error_of(outcome, body)}
        call = to_json(leaf.get("call_id"))
        if kind in ("call.asked", "call.intended"):
            self._intents[call] = at, None if body is None else "sha256:" + hashlib.sha256(body).hexdigest()
        if kind == "call.settled":
            took = take_count(leaf, "duration_us") / 1000
            started, hashed = self._intents.get(call, (at - int(took), None))
            record["event"] = {
                "tool_name": leaf.get("tool"),
                "input_hash": hashed,
                "started_at": timestamp(started),
                "finished_at": timestamp(at),
                "status": status,
            }
            record["metrics"] = {"duration_ms": took}
        return record


def header(at: int, origin: str, run: str, count: int, key: str) -> dict[str, Any]:
    """The first record of a bundle."""
    first = {"bundle_version": "1", **base(at, "admission", "info", run, None)}
    return {**first, "origin": origin, "run": run, "count": count, "verifier_key": key}


def base(at: int, phase: str, level: str, run: Any, call: Any) -> dict[str, Any]:
    ids = {"job_id": run} if call is None else {"job_id": run, "req_id": call}
    return {"ts": timestamp(at), "actor": "handrail", "phase": phase, "level": level, "ids": ids}


def error_of(outcome: str, body: "bytes | None") -> dict[str, str]:
    """The code and the words of a failure. A body that is long, deep or erased gives only the code."""
    error = {"code": outcome}
    # Every Python must agree on what is too deep to read, so brackets are counted instead of trying.
    if body is None or len(body) > INLINE or body.count(b"[") + body.count(b"{") > 500:
        return error
    try:
        found = json.loads(body.decode())
    except ValueError:
        return error
    told = found.get("error") if isinstance(found, dict) else None
    if isinstance(told, dict):
        error.update((name, told[name]) for name in ("code", "message") if isinstance(told.get(name), str))
    return error


def attachment_name(leaf: dict[str, Any]) -> str:
    """The file of a body: made of safe letters only, whatever the leaf says."""
    kind = re.sub(r"[^a-z]+", "_", take(leaf, "type", str))[:40]
    return f"attachments/{take_count(leaf, 'n'):03d}_{kind}.json"


BELOW = "below"
"""The folder in a bundle with the bundles of the runs that its calls began."""


def run_extension(run: str, count: int) -> str:
    """The line of a checkpoint that fixes how many entries a run has, so that a cut tail shows."""
    return f"handrail-run {quote(run, safe=':/@')} {count}"


def timestamp(milliseconds: int) -> str:
    if not 0 <= milliseconds < 253_402_300_800_000:
        raise InvalidBundle(f"{milliseconds} is not a time of day")
    return (datetime(1970, 1, 1) + timedelta(milliseconds=milliseconds)).isoformat(timespec="milliseconds") + "Z"


# ── reading ──


def to_json(value: Any) -> str:
    return json.dumps(value, sort_keys=True, separators=(",", ":"))


def parse_object(data: bytes) -> dict[str, Any]:
    """A JSON object. A key that stands twice is refused: two readers could see two things."""
    try:
        found = json.loads(data.decode(), object_pairs_hook=_unique, parse_constant=_no_constant)
    except (ValueError, RecursionError):
        raise InvalidBundle("is not a JSON object as handrail writes it") from None
    if not isinstance(found, dict):
        raise InvalidBundle("is not a JSON object as handrail writes it")
    return found


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise InvalidBundle("a key stands twice")
    return found


def _no_constant(name: str) -> None:
    raise InvalidBundle(f"{name} is not JSON")


def take(data: dict[str, Any], name: str, kind: type[T]) -> T:
    value = data.get(name)
    if type(value) is not kind:
        raise InvalidBundle(f"its field {name!r} is missing or not as handrail writes it")
    return value


def take_count(data: dict[str, Any], name: str) -> int:
    value = take(data, name, int)
    if not 0 <= value < 2**63:
        raise InvalidBundle(f"its field {name!r} is out of range")
    return value


def unhex(text: Any, size: int) -> bytes:
    if not isinstance(text, str) or not re.fullmatch(f"[0-9a-f]{{{2 * size}}}", text):
        raise InvalidBundle(f"{show(text)} is not {size} bytes in hex")
    return bytes.fromhex(text)


def unbase64(text: str) -> bytes:
    try:
        data = base64.b64decode(text, validate=True)
    except ValueError:
        raise InvalidBundle(f"{show(text)} is not base64") from None
    if base64.b64encode(data).decode() != text:
        raise InvalidBundle(f"{show(text)} is not proper base64")
    return data


def show(value: Any) -> str:
    """Something from the bundle, safe for a terminal."""
    text = ascii(value)
    return text if len(text) <= 100 else text[:97] + "..."


# ── the checkpoint: a C2SP signed note ──


class SignedNote(NamedTuple):
    text: bytes
    origin: str
    size: int
    root: bytes
    run: str
    entries: int
    signatures: tuple[tuple[str, bytes], ...]


class NoteKey(NamedTuple):
    name: str
    id: bytes
    public: bytes


def parse_note(data: bytes) -> SignedNote:
    try:
        text, blank, tail = data.decode().rpartition("\n\n")
    except UnicodeDecodeError:
        raise InvalidBundle("is not text") from None
    lines = text.split("\n")
    if not blank or not tail.endswith("\n") or len(lines) < 3 or any(c < " " and c != "\n" for c in text + tail):
        raise InvalidBundle("is cut or garbled")
    if not re.fullmatch("0|[1-9][0-9]{0,18}", lines[1]):
        raise InvalidBundle(f"its size is not a number: {show(lines[1])}")
    root = unbase64(lines[2])
    runs = [found for found in (RUN_LINE.fullmatch(line) for line in lines[3:]) if found]
    if not lines[0] or len(root) != 32 or len(runs) != 1:
        raise InvalidBundle("needs a name, a root hash and one line 'handrail-run RUN COUNT'")
    run, count = unquote(runs[0][1]), int(runs[0][2])
    signatures = tuple(_signature(line) for line in tail[:-1].split("\n")[:100])
    return SignedNote(text.encode() + b"\n", lines[0], int(lines[1]), root, run, count, signatures)


def _signature(line: str) -> tuple[str, bytes]:
    dash, _, rest = line.partition(" ")
    name, _, encoded = rest.partition(" ")
    if dash != "\N{EM DASH}" or not name or not encoded:
        raise InvalidBundle(f"a line of its signatures is garbled: {show(line)}")
    return name, unbase64(encoded)


def parse_key(text: Any) -> NoteKey:
    pieces = text.split("+", 2) if isinstance(text, str) else []
    if len(pieces) != 3:
        raise InvalidBundle(f"{show(text)} is not a verifier key, which looks like name+id+base64")
    data, name = unbase64(pieces[2]), pieces[0].encode("utf-8", "replace")
    if len(data) != 33 or data[0] != 1:
        raise InvalidBundle(f"{show(text)} is not an Ed25519 verifier key")
    if is_small_order(data[1:]):
        raise InvalidBundle(
            f"{show(text)} is a key that fits any signature; whoever gave it to you is not to be trusted"
        )
    key = NoteKey(pieces[0], hashlib.sha256(name + b"\n" + data).digest()[:4], data[1:])
    if key.id.hex() != pieces[1]:
        raise InvalidBundle(f"{show(text)} was changed: its id does not fit")
    return key


def check_signature(note: SignedNote, key: NoteKey) -> None:
    mine = [data[4:] for name, data in note.signatures if name == key.name and data[:4] == key.id]
    if not mine:
        names = ", ".join(f"{name}+{data[:4].hex()}" for name, data in note.signatures)
        raise InvalidBundle(f"is not signed by the key {show(f'{key.name}+{key.id.hex()}')} but by {show(names)}")
    if not all(verify_ed25519(key.public, note.text, signature) for signature in mine):
        raise InvalidBundle("its signature is wrong: it was changed after it was signed")


def leaf_hash(leaf: bytes) -> bytes:
    return hashlib.sha256(b"\x00" + leaf).digest()


def included(leaf: bytes, index: int, size: int, proof: Iterable[bytes], root: bytes) -> bool:
    """RFC 9162, 2.1.3.2: whether the leaf with this hash stands at an index of the tree with this root."""
    if not 0 <= index < size:
        return False
    node, last, found = index, size - 1, leaf
    for step in proof:
        if last == 0:
            return False
        right = bool(node & 1) or node == last
        found = hashlib.sha256(b"\x01" + (step + found if right else found + step)).digest()
        while right and node and not node & 1:
            node, last = node >> 1, last >> 1
        node, last = node >> 1, last >> 1
    return last == 0 and found == root


# ── Ed25519 verification, RFC 8032; slow and not secret, which is enough to check one signature ──

P = 2**255 - 19
ORDER = 2**252 + 27742317777372353535851937790883648493
D = -121665 * pow(121666, P - 2, P) % P
Point = tuple[int, int, int, int]
"""Extended coordinates: x = X/Z, y = Y/Z, x*y = T/Z."""


def decode_point(data: bytes) -> "Point | None":
    number = int.from_bytes(data, "little")
    sign, y = number >> 255, number & (2**255 - 1)
    square = (y * y - 1) * pow(D * y * y + 1, P - 2, P) % P
    x = pow(square, (P + 3) // 8, P)
    if (x * x - square) % P:
        x = x * pow(2, (P - 1) // 4, P) % P
    if y >= P or (x * x - square) % P or (x == 0 and sign):
        return None
    x = P - x if x & 1 != sign else x
    return x, y, 1, x * y % P


def encode_point(point: Point) -> bytes:
    inverse = pow(point[2], P - 2, P)
    x, y = point[0] * inverse % P, point[1] * inverse % P
    return (y | (x & 1) << 255).to_bytes(32, "little")


def add_points(p: Point, q: Point) -> Point:
    a, b = (p[1] - p[0]) * (q[1] - q[0]) % P, (p[1] + p[0]) * (q[1] + q[0]) % P
    c, d = 2 * D * p[3] * q[3] % P, 2 * p[2] * q[2] % P
    e, f, g, h = b - a, d - c, d + c, b + a
    return e * f % P, g * h % P, f * g % P, e * h % P


def multiply_point(factor: int, point: Point) -> Point:
    total: Point = (0, 1, 1, 0)
    while factor:
        if factor & 1:
            total = add_points(total, point)
        point, factor = add_points(point, point), factor >> 1
    return total


def is_small_order(public: bytes) -> bool:
    """Whether a key is one of the few points that let one signature fit many messages."""
    point = decode_point((int.from_bytes(public, "little") % 2**255 % P).to_bytes(32, "little"))
    if point is None:
        return False
    x, y, z, _ = multiply_point(8, point)
    return x % P == 0 and (y - z) % P == 0


def verify_ed25519(public: bytes, message: bytes, signature: bytes) -> bool:
    if len(public) != 32 or len(signature) != 64:
        return False
    key, generator = decode_point(public), decode_point(bytes([0x58]) + bytes([0x66]) * 31)
    s = int.from_bytes(signature[32:], "little")
    if key is None or generator is None or s >= ORDER:
        return False
    hashed = hashlib.sha512(signature[:32] + public + message).digest()
    negated = (P - key[0], key[1], key[2], P - key[3])
    challenge = multiply_point(int.from_bytes(hashed, "little") % ORDER, negated)
    return encode_point(add_points(multiply_point(s, generator), challenge)) == signature[:32]


# ── the walk through a bundle ──


class VerifierEntry(NamedTuple):
    record: dict[str, Any]
    leaf: dict[str, Any]
    raw: bytes
    seq: int
    n: int
    at: int


def parse_entry(line: bytes) -> VerifierEntry:
    record = parse_object(line)
    raw = take(record, "leaf", str).encode("utf-8", "replace")
    leaf = parse_object(raw)
    if leaf.get("v") != 1:
        raise InvalidBundle(f"is of version {show(leaf.get('v'))}, which this verifier does not know; use a newer one")
    seq = take_count(leaf, "seq")
    if take_count(record, "seq") != seq:
        raise InvalidBundle(f"its line gives it the place {record['seq']} in the journal, its leaf {seq}")
    return VerifierEntry(record, leaf, raw, seq, take_count(leaf, "n"), take_count(leaf, "at"))


class BundleWalk:
    """Looks at one entry after the other and notes what is wrong, going on after each problem."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.note: SignedNote | None = None
        self.problems: list[BundleProblem] = []
        self.seen = 0
        self.erased = 0
        self.first_at: int | None = None
        self._next = 0
        self._gap = False
        self._before: tuple[int, str] = -1, "0" * 64
        self._records = RecordFields()
        self._attachments: set[str] = set()

    def attempt(self, where: "int | str", step: Callable[..., T], *arguments: Any) -> "T | None":
        try:
            return step(*arguments)
        except InvalidBundle as bad:
            self.problems.append(BundleProblem(where, str(bad)))
            return None

    def entry(self, line: bytes, run: Any) -> None:
        self.seen += 1
        entry = self.attempt(self._next, self._proven, line, run)
        if entry is None:
            self._next, self._gap = self._next + 1, True
            return
        if self.first_at is None:
            self.first_at = entry.at
        self._order(entry)
        if not self.attempt(entry.n, self._content, entry):
            self._gap = True

    def header(self, note: SignedNote, first: dict[str, Any], key: Any) -> dict[str, Any]:
        """What the first line should be; its time is that of the first entry, if that could be read."""
        derived = header(self.first_at or 0, note.origin, note.run, note.entries, key)
        return derived if self.first_at is not None else {**derived, "ts": first.get("ts")}

    def finish(self, count: "int | None") -> None:
        if count is not None and self._next < count:
            self._missing(count)
        if count is not None and self._next > count:
            self.problems.append(BundleProblem(count, f"is one too many: the checkpoint fixes {count} entries"))
        folder = self.folder / "attachments"
        for path in sorted(folder.iterdir()) if folder.is_dir() else []:
            if f"attachments/{path.name}" not in self._attachments:
                self.problems.append(BundleProblem("attachments", f"no entry knows the file {show(path.name)}"))

    def _proven(self, line: bytes, run: Any) -> VerifierEntry:
        """An entry that the signed root vouches for."""
        entry = parse_entry(line)
        proof = [unhex(step, 32) for step in take(entry.record, "proof", list)]
        if self.note and not included(leaf_hash(entry.raw), entry.seq, self.note.size, proof, self.note.root):
            raise InvalidBundle("is not in the journal that was signed: it, or its proof, was changed")
        if entry.leaf.get("run") != run:
            raise InvalidBundle(f"belongs to another run: {show(entry.leaf.get('run'))}")
        return entry

    def _order(self, entry: VerifierEntry) -> None:
        seq, hashed = self._before
        if entry.n > self._next:
            self._missing(entry.n)
        if entry.n < self._next:
            self.problems.append(BundleProblem(entry.n, f"is out of order: it stands after entry {self._next - 1}"))
            self._gap = True
            return
        if entry.seq <= seq:
            self.problems.append(BundleProblem(entry.n, "has an earlier place in the journal than the entry before it"))
        if entry.seq == seq + 1 and entry.leaf.get("prev") != hashed:
            self.problems.append(BundleProblem(entry.n, "does not name the entry before it as such"))
        self._next = entry.n + 1
        self._before = entry.seq, leaf_hash(entry.raw).hex()

    def _missing(self, until: int) -> None:
        rest = "" if until - self._next == 1 else f", and all up to entry {until - 1}"
        self.problems.append(BundleProblem(self._next, f"is missing{rest}"))
        self._next, self._gap = until, True

    def _body(self, entry: VerifierEntry) -> "bytes | None":
        held = BODY_KEYS & entry.record.keys()
        if "body" not in entry.leaf:
            if held:
                raise InvalidBundle("has a body that its leaf does not know")
            return None
        if held == {"erased"} and entry.record["erased"] is True:
            self.erased += 1
            return None
        if held not in ({"salt", "body"}, {"salt", "attachment"}):
            raise InvalidBundle("has no body, and is not marked as erased")
        declared = take(entry.leaf, "body", dict)
        size = take_count(declared, "size")
        text = "" if "attachment" in held else take(entry.record, "body", str)
        data = self._attachment(entry, size) if "attachment" in held else text.encode("utf-8", "replace")
        if hashlib.sha256(unhex(entry.record["salt"], 16) + data).hexdigest() != declared.get("digest"):
            raise InvalidBundle("its body was changed: it does not have the digest that was recorded")
        if len(data) != size:
            raise InvalidBundle(f"its body has {len(data)} bytes, where {size} were recorded")
        return data

    def _attachment(self, entry: VerifierEntry, size: int) -> bytes:
        name = attachment_name(entry.leaf)
        if entry.record["attachment"] != name:
            raise InvalidBundle(f"its body should be in {name!r}, not in {show(entry.record['attachment'])}")
        self._attachments.add(name)
        path = self.folder / name
        try:
            if path.is_symlink() or not path.is_file() or path.stat().st_size != size:
                raise InvalidBundle(f"its body {name!r} is missing, or not a file of {size} bytes")
            return path.read_bytes()
        except OSError as error:
            raise InvalidBundle(f"its body {name!r} cannot be read: {error.strerror}") from None

    def _content(self, entry: VerifierEntry) -> bool:
        derived = self._records.of(entry.leaf, self._body(entry))
        told = {name: value for name, value in entry.record.items() if name not in PROOF_KEYS}
        if self._gap and "event" in derived:
            # It cites an entry that may be the missing or the changed one.
            derived["event"] = told.get("event")
        compare(told, derived, "what was recorded")
        return True


def compare(told: dict[str, Any], derived: dict[str, Any], source: str) -> None:
    wrong = [name for name in sorted(told.keys() | derived.keys()) if not _agree(told, derived, name)]
    if wrong:
        raise InvalidBundle(f"says something else than {source} in {', '.join(map(show, wrong))}")


def _agree(told: dict[str, Any], derived: dict[str, Any], name: str) -> bool:
    # Compared as text, because 1, 1.0 and true are equal in Python and different in JSON.
    return name in told and name in derived and to_json(told[name]) == to_json(derived[name])


def check(folder: Path, key: "str | None" = None) -> BundleReport:
    """Verify a bundle, with the reader's own key if there is one.

    Raises:
        OSError: A file cannot be read.
        InvalidBundle: The given key is not a key.
    """
    if key is not None:
        parse_key(key)
    walk = BundleWalk(folder)
    note = walk.note = walk.attempt("checkpoint", parse_note, _file(folder / "checkpoint").read_bytes())
    with _file(folder / "bundle.jsonl").open("rb") as lines:
        first = walk.attempt("first line", parse_object, lines.readline()) or {}
        named = first.get("verifier_key") if key is None else key
        public = walk.attempt("key", parse_key, named)
        if note and public:
            walk.attempt("checkpoint", check_signature, note, public)
        run = note.run if note else first.get("run")
        for line in lines:
            walk.entry(line, run)
    walk.finish(note.entries if note else None)
    if note and first:
        walk.attempt("first line", compare, first, walk.header(note, first, named), "the checkpoint and the entries")
    for below in _folders(folder / BELOW):
        found = check(below, key)
        where = f"{BELOW}/{below.name}"
        if not found.run.startswith(f"{run}."):
            walk.problems.append(BundleProblem(where, f"is of the run {show(found.run)}, which this one did not begin"))
        walk.problems += [BundleProblem(f"{where}, {each.where}", each.what) for each in found.problems]
    return BundleReport(
        run=str(run),
        origin=note.origin if note else "",
        entries=walk.seen,
        erased=walk.erased,
        size=note.size if note else 0,
        key=str(named),
        key_given=key is not None,
        problems=tuple(walk.problems),
    )


def _folders(path: Path) -> "list[Path]":
    return sorted(each for each in path.iterdir() if each.is_dir()) if path.is_dir() else []


def _file(path: Path) -> Path:
    # A pipe or a device in the place of a file would keep us for ever.
    if not path.is_file():
        raise FileNotFoundError(2, "there is no such file", str(path))
    return path


# ── the command ──


def to_dict(report: BundleReport) -> dict[str, Any]:
    problems = [
        {"entry": problem.where if isinstance(problem.where, int) else None, "text": str(problem)}
        for problem in report.problems
    ]
    answer = {"ok": not problems, **report._asdict(), "problems": problems}
    return {**answer, "not_proven": NOT_PROVEN}


def describe(report: BundleReport) -> list[str]:
    lines = [str(problem) for problem in report.problems[:SHOWN]]
    if len(report.problems) > SHOWN:
        lines.append(f"... and {len(report.problems) - SHOWN} more")
    what = f"{report.entries} entries of run {show(report.run)}, {report.erased} with an erased body"
    if report.problems:
        return [*lines, f"NOT VERIFIED: {len(report.problems)} problem(s) in {what}"]
    lines.append(f"VERIFIED: {what}, in journal {show(report.origin)} when it had {report.size} entries")
    lines.append(f"signed by {show(report.key)}")
    if not report.key_given:
        lines.append("WARNING: this key came with the bundle, and whoever made the bundle may have made the key;")
        lines.append("         get the key from somewhere you trust and give it with --key")
    return [*lines, "Not proven: " + "; ".join(NOT_PROVEN) + "."]


def main(arguments: "list[str] | None" = None) -> int:
    parser = argparse.ArgumentParser(description="Verify a proof bundle of handrail.")
    parser.add_argument("folder", nargs="?", type=Path, default=Path(__file__).resolve().parent, metavar="FOLDER")
    parser.add_argument("--key", metavar="VKEY", help="the verifier key that you trust: name+id+base64")
    parser.add_argument("--json", action="store_true", help="answer in JSON")
    options = parser.parse_args(arguments)
    try:
        report = check(options.folder, options.key)
    except OSError as error:
        print(f"cannot read {show(str(error.filename))}: {error.strerror}", file=sys.stderr)
        return 2
    except InvalidBundle as bad:
        print(f"--key: {bad}", file=sys.stderr)
        return 2
    print(json.dumps(to_dict(report), indent=2) if options.json else "\n".join(describe(report)))
    return 1 if report.problems else 0


if __name__ == "__main__":
    sys.exit(main())
