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

from handrail.bus.descriptor import CapabilityDescriptor
from handrail.bus.port import Handler
from handrail.bus.request import RouteRequest
from handrail.core.errors import BusError, MissingExtra
from handrail.core.ports import Clock, SystemClock
from handrail.services.database import Database
from handrail.services.shapes import CID, body, closed
from handrail.store.content import make_folder, write_whole

MIB = 1024 * 1024
MOST_EACH = 16 * MIB
EVERYBODY = ""
"""The holder of what was put as shared."""

_CID = re.compile(r"blake3:([0-9a-f]{64})")
_TABLES = """
CREATE TABLE IF NOT EXISTS blob (cid TEXT PRIMARY KEY, size INTEGER NOT NULL);
CREATE TABLE IF NOT EXISTS holder (
    cid TEXT NOT NULL REFERENCES blob, owner TEXT NOT NULL, media_type TEXT NOT NULL, at INTEGER NOT NULL,
    PRIMARY KEY (owner, cid)
)
"""


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
    """A folder of blobs, with a bound on each and on all. Several processes may use one folder."""

    def __init__(
        self, folder: Path, *, most_each: int = MOST_EACH, most_bytes: int = 1024 * MIB, clock: Clock | None = None
    ) -> None:
        self.most_each = most_each
        self._folder = folder
        self._most_bytes = most_bytes
        self._clock = clock or SystemClock()
        self._database = Database(folder / "index.sqlite", _TABLES, kind="blobs")

    async def put(self, data: bytes, media_type: str, owner: str, *, shared: bool = False) -> str:
        """Keep bytes for their owner, or for everybody.

        Raises:
            BusError: They are too many (`bad_request`), or there is no room (`capacity_exceeded`).
        """
        if len(data) > self.most_each:
            raise BusError("bad_request", f"a blob has at most {self.most_each} bytes; this one has {len(data)}")
        cid = await asyncio.to_thread(cid_of, data)
        holder = EVERYBODY if shared else owner

        def keep(connection: sqlite3.Connection) -> None:
            if connection.execute("SELECT 1 FROM blob WHERE cid = ?", (cid,)).fetchone() is None:
                self._make_room(connection, len(data))
                connection.execute("INSERT INTO blob VALUES (?, ?)", (cid, len(data)))
            path = self._path(cid)
            if not path.is_file():
                make_folder(path.parent)
                write_whole(path, data)
            connection.execute(
                "INSERT OR REPLACE INTO holder VALUES (?, ?, ?, ?)", (cid, holder, media_type, self._clock.now())
            )

        await self._database.write(keep)
        return cid

    async def read(self, cid: str, owner: str) -> tuple[str, bytes]:
        """The media type and the bytes of a blob that this owner put, or that is shared.

        Raises:
            BusError: There is none for it (`not_found`), or the file was changed (`internal_error`).
        """

        def find(connection: sqlite3.Connection) -> Any:
            return connection.execute(
                "SELECT media_type FROM holder WHERE cid = ? AND owner IN (?, ?) ORDER BY owner DESC",
                (cid, owner, EVERYBODY),
            ).fetchone()

        found = await self._database.read(find) if _CID.fullmatch(cid) else None
        if found is None:
            raise BusError("not_found", f"there is no blob {cid[:80]!r} for you; put it first")
        return found[0], await asyncio.to_thread(self._checked, cid)

    def close(self) -> None:
        self._database.close()

    def _make_room(self, connection: sqlite3.Connection, size: int) -> None:
        (used,) = connection.execute("SELECT coalesce(sum(size), 0) FROM blob").fetchone()
        if used + size > self._most_bytes:
            raise BusError("capacity_exceeded", f"this node keeps {self._most_bytes} bytes of blobs, and has them")

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


def _media_type() -> dict[str, Any]:
    return {"type": "string", "pattern": "^[a-z0-9.+-]+/[a-zA-Z0-9.+-]+$", "maxLength": 100}


def _put_descriptor(most: int) -> CapabilityDescriptor:
    data = {
        "type": "string",
        "pattern": "^[A-Za-z0-9_-]*=*$",
        "maxLength": -(-most // 3) * 4,
        "description": "The bytes as base64url.",
    }
    shared = {"type": "boolean", "default": False, "description": "For everybody who may ask this node."}
    fields = {"data": data, "media_type": _media_type(), "shared": shared}
    return CapabilityDescriptor(
        name="blob.put",
        description=f"Keep up to {most} bytes under the hash of them, so that other calls can name them.",
        request_schema=body(closed(fields, ["data", "media_type"])),
        response_schema=closed({"cid": CID, "size_bytes": {"type": "integer"}}, ["cid", "size_bytes"]),
        params={"max_bytes": most},
        timeout_seconds=30,
        side_effects=True,
        idempotent=True,
    )


_GET = CapabilityDescriptor(
    name="blob.get",
    max_concurrent=64,
    description="The bytes of a blob that you put, or that is shared.",
    request_schema=body(closed({"cid": CID}, ["cid"])),
    response_schema=closed(
        {
            "cid": CID,
            "media_type": _media_type(),
            "size_bytes": {"type": "integer"},
            "data": {"type": "string", "description": "The bytes as base64url, without padding."},
        },
        ["cid", "media_type", "size_bytes", "data"],
    ),
    timeout_seconds=30,
    untrusted=True,
)


class BlobService:
    """`blob.put` and `blob.get` over a store."""

    def __init__(self, store: BlobStore) -> None:
        self.store = store

    def capabilities(self) -> Iterator[tuple[CapabilityDescriptor, Handler]]:
        yield _put_descriptor(self.store.most_each), self.put
        yield _GET, self.get

    async def put(self, request: RouteRequest) -> dict[str, Any]:
        data = _decoded(request.input["data"])
        shared = bool(request.input.get("shared", False))
        cid = await self.store.put(data, request.input["media_type"], request.caller.id, shared=shared)
        return {"output": {"cid": cid, "size_bytes": len(data)}}

    async def get(self, request: RouteRequest) -> dict[str, Any]:
        cid: str = request.input["cid"]
        media_type, data = await self.store.read(cid, request.caller.id)
        text = base64.urlsafe_b64encode(data).rstrip(b"=").decode()
        return {"output": {"cid": cid, "media_type": media_type, "size_bytes": len(data), "data": text}}


def _decoded(text: str) -> bytes:
    bare = text.rstrip("=")
    try:
        return base64.b64decode(bare + "=" * (-len(bare) % 4), altchars=b"-_", validate=True)
    except (binascii.Error, ValueError) as error:
        raise BusError("bad_request", f"input.data is no base64url: {error}") from error
