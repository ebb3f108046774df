"""Bytes that calls pass around by name: pictures, recordings, documents.

A blob is named by the BLAKE3 hash of its bytes and belongs to whoever put it. For
everybody else it is not there, unless it was put as shared. The bytes are files, what
is known of them is in SQLite.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import re
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from handrail.core.errors import BusError, MissingExtra
from handrail.core.ports import Clock, SystemClock
from handrail.node.bus.descriptor import CapabilityDescriptor
from handrail.node.bus.interfaces import Handler
from handrail.node.bus.request import RouteRequest
from handrail.node.services.database import Database
from handrail.node.services.schema_parts import CID, closed_object, full_object, request_schema_of
from handrail.node.tokens.identity import to_base64
from handrail.sessions.store.content import make_folder, write_atomically

MIB = 1024 * 1024
MOST_EACH = 16 * MIB
_CID = re.compile(r"blake3:([0-9a-f]{64})")
_TABLES = """
CREATE TABLE IF NOT EXISTS blob (cid TEXT PRIMARY KEY, size INTEGER NOT NULL);
CREATE TABLE IF NOT EXISTS holder (
    cid TEXT NOT NULL REFERENCES blob, owner TEXT NOT NULL, media_type TEXT NOT NULL, at INTEGER NOT NULL,
    shared INTEGER NOT NULL, PRIMARY KEY (owner, cid)
);
CREATE INDEX IF NOT EXISTS holder_cid ON holder (cid)
"""
_USED = "SELECT coalesce(sum(size), 0), count(CASE WHEN b.cid = ? THEN 1 END) FROM blob b"
"""Bytes in all, and whether a blob is one of those."""
_USED_BY = f"{_USED} JOIN holder h ON h.cid = b.cid WHERE h.owner = ?"


def cid_of(data: bytes) -> str:
    """The name of these bytes, wherever they are.

    Raises:
        MissingExtra: BLAKE3 is not installed.
    """
    try:
        from blake3 import blake3
    except ImportError as error:
        raise MissingExtra("naming blobs", "bus") from error
    return f"blake3:{blake3(data).hexdigest()}"


class BlobStore:
    """A folder of blobs, with bounds on each, on those of an owner and on all. Several processes may use one folder."""

    def __init__(
        self,
        folder: Path,
        *,
        most_each: int = MOST_EACH,
        most_per_owner: int = 256 * MIB,
        most_bytes: int = 1024 * MIB,
        clock: Clock | None = None,
    ) -> None:
        self.most_each = most_each
        self._folder = folder
        self._most_per_owner = most_per_owner
        self._most_bytes = most_bytes
        self._clock = clock or SystemClock()
        self._database = Database(folder / "index.sqlite", _TABLES, kind="blobs")

    async def put(self, data: bytes, media_type: str, owner: str, *, shared: bool = False) -> str:
        """Keep bytes for their owner, or for everybody.

        Raises:
            BusError: They are too many (`bad_request`), there is no room (`capacity_exceeded`), or they cannot be
                written (`internal_error`).
        """
        if len(data) > self.most_each:
            raise BusError("bad_request", f"a blob has at most {self.most_each} bytes; this one has {len(data)}")
        cid = await asyncio.to_thread(cid_of, data)

        def keep(connection: sqlite3.Connection) -> None:
            self._check_room(connection, cid, len(data), owner)
            connection.execute("INSERT OR IGNORE INTO blob VALUES (?, ?)", (cid, len(data)))
            self._write(cid, data)
            row = (cid, owner, media_type, self._clock.now(), shared)
            connection.execute("INSERT OR REPLACE INTO holder VALUES (?, ?, ?, ?, ?)", row)

        await self._database.write(keep)
        return cid

    async def read(self, cid: str, owner: str) -> tuple[str, bytes]:
        """The media type and the bytes of a blob that this owner put, or that is shared.

        Raises:
            BusError: There is none for it (`not_found`), or the file was changed (`internal_error`).
        """

        def find(connection: sqlite3.Connection) -> Any:
            return connection.execute(
                "SELECT media_type FROM holder WHERE cid = ? AND (owner = ? OR shared) ORDER BY owner = ? DESC, at",
                (cid, owner, owner),
            ).fetchone()

        found = await self._database.read(find) if _CID.fullmatch(cid) else None
        if found is None:
            raise BusError("not_found", f"there is no blob {cid[:80]!r} for you; put it first")
        return found[0], await asyncio.to_thread(self._checked, cid)

    async def delete(self, cid: str, owner: str) -> bool:
        """Keep it no longer for this owner and whom they shared it with; False: they had none. Others keep theirs."""

        def forget(connection: sqlite3.Connection) -> bool:
            held = connection.execute("DELETE FROM holder WHERE cid = ? AND owner = ?", (cid, owner)).rowcount > 0
            if held and connection.execute("SELECT 1 FROM holder WHERE cid = ?", (cid,)).fetchone() is None:
                connection.execute("DELETE FROM blob WHERE cid = ?", (cid,))
                self._path(cid).unlink(missing_ok=True)
            return held

        return await self._database.write(forget)

    def close(self) -> None:
        self._database.close()

    def _check_room(self, connection: sqlite3.Connection, cid: str, size: int, owner: str) -> None:
        """What is there already takes no more room."""
        used, there = connection.execute(_USED, (cid,)).fetchone()
        theirs, held = connection.execute(_USED_BY, (cid, owner)).fetchone()
        if not held and theirs + size > self._most_per_owner:
            why = f"this node keeps {self._most_per_owner} bytes of blobs for you, and has them; delete some"
            raise BusError("capacity_exceeded", why)
        if not there and used + size > self._most_bytes:
            raise BusError("capacity_exceeded", f"this node keeps {self._most_bytes} bytes of blobs, and has them")

    def _write(self, cid: str, data: bytes) -> None:
        path = self._path(cid)
        try:
            if path.is_file() and path.read_bytes() == data:
                return
            make_folder(path.parent)
            write_atomically(path, data)
        except OSError as error:
            raise BusError("internal_error", f"the blob cannot be written ({error.strerror})") from error

    def _checked(self, cid: str) -> bytes:
        try:
            data = self._path(cid).read_bytes()
        except OSError as error:
            raise BusError("internal_error", f"blob {cid}: its file cannot be read ({error.strerror})") from error
        if cid_of(data) != cid:
            raise BusError("internal_error", f"blob {cid}: its file was changed; put it again")
        return data

    def _path(self, cid: str) -> Path:
        digest = cid.removeprefix("blake3:")
        return self._folder / digest[:2] / digest


_MEDIA_TYPE = {"type": "string", "pattern": "^[a-z0-9.+-]+/[a-zA-Z0-9.+-]+$", "maxLength": 100}
_SIZE = {"type": "integer"}
_NAMED = request_schema_of(full_object({"cid": CID}))


def _put_descriptor(most: int) -> CapabilityDescriptor:
    data = {
        "type": "string",
        "pattern": "^[A-Za-z0-9_-]*=*$",
        "maxLength": -(-most // 3) * 4,
        "description": "The bytes as base64url.",
    }
    shared = {"type": "boolean", "default": False, "description": "For everybody who may ask this node."}
    fields = {"data": data, "media_type": _MEDIA_TYPE, "shared": shared}
    return CapabilityDescriptor(
        name="blob.put",
        description=f"Keep up to {most} bytes under the hash of them, so that other calls can name them.",
        request_schema=request_schema_of(closed_object(fields, ["data", "media_type"])),
        response_schema=full_object({"cid": CID, "size_bytes": _SIZE}),
        params={"max_bytes": most},
        timeout_seconds=30,
        side_effects=True,
        idempotent=True,
    )


_GET = CapabilityDescriptor(
    name="blob.get",
    max_concurrent=64,
    description="The bytes of a blob that you put, or that is shared.",
    request_schema=_NAMED,
    response_schema=full_object(
        {
            "cid": CID,
            "media_type": _MEDIA_TYPE,
            "size_bytes": _SIZE,
            "data": {"type": "string", "description": "The bytes as base64url, without padding."},
        }
    ),
    timeout_seconds=30,
    untrusted=True,
)


_DELETE = CapabilityDescriptor(
    name="blob.delete",
    description="Keep a blob that you put no longer, neither for you nor for whom you shared it with.",
    request_schema=_NAMED,
    response_schema=full_object({"deleted": {"type": "boolean", "description": "false: you have none of that name."}}),
    timeout_seconds=30,
    side_effects=True,
    idempotent=True,
)


class BlobService:
    """`blob.put`, `blob.get` and `blob.delete` over a store."""

    def __init__(self, store: BlobStore) -> None:
        self.store = store

    def capabilities(self) -> Iterator[tuple[CapabilityDescriptor, Handler]]:
        yield _put_descriptor(self.store.most_each), self.put
        yield _GET, self.get
        yield _DELETE, self.delete

    async def put(self, request: RouteRequest) -> dict[str, Any]:
        data = await asyncio.to_thread(_decoded, request.input["data"])
        shared = bool(request.input.get("shared", False))
        cid = await self.store.put(data, request.input["media_type"], request.caller.id, shared=shared)
        return {"output": {"cid": cid, "size_bytes": len(data)}}

    async def get(self, request: RouteRequest) -> dict[str, Any]:
        cid: str = request.input["cid"]
        media_type, data = await self.store.read(cid, request.caller.id)
        text = await asyncio.to_thread(to_base64, data)
        return {"output": {"cid": cid, "media_type": media_type, "size_bytes": len(data), "data": text}}

    async def delete(self, request: RouteRequest) -> dict[str, Any]:
        return {"output": {"deleted": await self.store.delete(request.input["cid"], request.caller.id)}}


def _decoded(text: str) -> bytes:
    bare = text.rstrip("=")
    try:
        return base64.b64decode(bare + "=" * (-len(bare) % 4), altchars=b"-_", validate=True)
    except (binascii.Error, ValueError) as error:
        raise BusError("bad_request", f"input.data is no base64url: {error}") from error
