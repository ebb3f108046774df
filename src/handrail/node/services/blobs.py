"""Bytes that calls pass around by name: pictures, recordings, documents.

A blob is named by the BLAKE3 hash of its bytes and belongs to whoever put it. For
everybody else it is not there, unless it was put as shared. The bytes are files, and what
is known of them is in SQLite; or both are in the shared state of several replicas.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import re
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from handrail.core.durable_files import make_folder, write_atomically
from handrail.core.errors import BusError, MissingExtra
from handrail.core.ports import Clock, SystemClock
from handrail.node.bus.descriptor import CapabilityDescriptor
from handrail.node.bus.interfaces import Handler
from handrail.node.bus.request import RouteRequest
from handrail.node.services.schema_parts import CID, closed_object, full_object, request_schema_of
from handrail.node.tokens.identity import to_base64
from handrail.state.schema import Migration
from handrail.state.sql import SqlConnection, SqlDatabase, StoreTables, open_tables

if TYPE_CHECKING:
    from handrail.state.database import StateDatabase

MIB = 1024 * 1024
MOST_EACH = 16 * MIB
_CID = re.compile(r"blake3:([0-9a-f]{64})")
TABLES = StoreTables(
    "blobs",
    sqlite=(
        Migration(
            "0.1.0",
            """
            CREATE TABLE blob (cid TEXT PRIMARY KEY, size INTEGER NOT NULL);
            CREATE TABLE holder (
                cid TEXT NOT NULL REFERENCES blob, owner TEXT NOT NULL, media_type TEXT NOT NULL, at INTEGER NOT NULL,
                PRIMARY KEY (owner, cid)
            )
            """,
        ),
        Migration(
            "0.1.0",
            """
            ALTER TABLE holder ADD COLUMN shared INTEGER NOT NULL DEFAULT 0;
            CREATE INDEX holder_cid ON holder (cid)
            """,
        ),
        Migration("0.1.0", "ALTER TABLE holder RENAME TO blob_holder; DROP TABLE IF EXISTS kind"),
    ),
    unnumbered={"holder.shared": 2},
    postgres=(
        Migration(
            "0.1.0",
            """
            CREATE TABLE blob (cid TEXT PRIMARY KEY, size BIGINT NOT NULL);
            CREATE TABLE blob_holder (
                cid TEXT NOT NULL REFERENCES blob, owner TEXT NOT NULL, media_type TEXT NOT NULL, at BIGINT NOT NULL,
                shared INTEGER NOT NULL, PRIMARY KEY (owner, cid)
            );
            CREATE INDEX blob_holder_cid ON blob_holder (cid);
            CREATE TABLE blob_content (cid TEXT PRIMARY KEY REFERENCES blob ON DELETE CASCADE, data BYTEA NOT NULL);
            ALTER TABLE blob_content ALTER COLUMN data SET STORAGE EXTERNAL
            """,
        ),
    ),
)
_USED = "SELECT coalesce(sum(size), 0), count(CASE WHEN b.cid = ? THEN 1 END) FROM blob b"
"""Bytes in all, and whether a blob is one of those."""
_USED_BY = f"{_USED} JOIN blob_holder h ON h.cid = b.cid WHERE h.owner = ?"

_HOLD = (
    "INSERT INTO blob_holder VALUES (?, ?, ?, ?, ?) ON CONFLICT (owner, cid) DO UPDATE"
    " SET media_type = excluded.media_type, at = excluded.at, shared = excluded.shared"
)


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


def file_of(folder: Path, cid: str) -> Path:
    """The file with the bytes of a blob in a folder of blobs."""
    digest = cid.removeprefix("blake3:")
    return folder / digest[:2] / digest


class HeldBlob(NamedTuple):
    cid: str
    owner: str
    at: int
    """The time at which the owner put it last, in milliseconds since 1970."""
    size: int


class BlobStore:
    """Blobs in a folder or in the shared state of several replicas, with bounds on each, on those of an owner and on
    all. Several processes may use one folder."""

    def __init__(
        self,
        place: Path | StateDatabase,
        *,
        most_each: int = MOST_EACH,
        most_per_owner: int = 256 * MIB,
        most_bytes: int = 1024 * MIB,
        clock: Clock | None = None,
    ) -> None:
        self.most_each = most_each
        self._most_per_owner = most_per_owner
        self._most_bytes = most_bytes
        self._clock = clock or SystemClock()
        self._database = open_tables(place / "index.sqlite" if isinstance(place, Path) else place, TABLES)
        self._content = _BlobFiles(place) if isinstance(place, Path) else _BlobRows(self._database)

    async def put(self, data: bytes, media_type: str, owner: str, *, shared: bool = False) -> str:
        """Keep bytes for their owner, or for everybody.

        Raises:
            BusError: They are too many (`bad_request`), there is no room (`capacity_exceeded`), or they cannot be
                written (`internal_error`).
        """
        if len(data) > self.most_each:
            raise BusError("bad_request", f"a blob may have at most {self.most_each} bytes; this one has {len(data)}")
        cid = await asyncio.to_thread(cid_of, data)

        def keep(connection: SqlConnection) -> None:
            self._check_room(connection, cid, len(data), owner)
            connection.execute("INSERT INTO blob VALUES (?, ?) ON CONFLICT DO NOTHING", (cid, len(data)))
            self._content.write(connection, cid, data)
            row = (cid, owner, media_type, self._clock.now(), int(shared))
            connection.execute(_HOLD, row)

        await self._database.write(keep)
        return cid

    async def read(self, cid: str, owner: str) -> tuple[str, bytes]:
        """The media type and the bytes of a blob that this owner put, or that is shared.

        Raises:
            BusError: There is none for it (`not_found`), or the file was changed (`internal_error`).
        """

        def find(connection: SqlConnection) -> Any:
            return connection.execute(
                "SELECT media_type FROM blob_holder WHERE cid = ? AND (owner = ? OR shared = 1)"
                " ORDER BY owner = ? DESC, at",
                (cid, owner, owner),
            ).fetchone()

        found = await self._database.read(find) if _CID.fullmatch(cid) else None
        if found is None:
            raise BusError("not_found", f"you have no blob {cid[:80]!r}; store it first")
        return found[0], await self._checked(cid)

    async def delete(self, cid: str, owner: str) -> bool:
        """Keep it no longer for this owner and whom they shared it with; False: they had none. Others keep theirs."""

        def forget(connection: SqlConnection) -> bool:
            held = connection.execute("DELETE FROM blob_holder WHERE cid = ? AND owner = ?", (cid, owner)).rowcount > 0
            if held and connection.execute("SELECT 1 FROM blob_holder WHERE cid = ?", (cid,)).fetchone() is None:
                connection.execute("DELETE FROM blob WHERE cid = ?", (cid,))
                self._content.remove(cid)
            return held

        return await self._database.write(forget)

    async def delete_all(self, owner: str) -> int:
        """Keep nothing for this owner any longer; how many blobs they were."""
        held = await self._database.read(
            lambda connection: connection.execute("SELECT cid FROM blob_holder WHERE owner = ?", (owner,)).fetchall()
        )
        return sum([await self.delete(cid, owner) for (cid,) in held])

    async def held(self) -> list[HeldBlob]:
        """What everybody has, the oldest first."""
        columns = "h.cid, h.owner, h.at, b.size"
        asked = f"SELECT {columns} FROM blob_holder h JOIN blob b ON b.cid = h.cid ORDER BY h.at, h.cid"
        rows = await self._database.read(lambda connection: connection.execute(asked).fetchall())
        return [HeldBlob(*row) for row in rows]

    def close(self) -> None:
        self._database.close()

    def _check_room(self, connection: SqlConnection, cid: str, size: int, owner: str) -> None:
        """What is there already takes no more room."""
        used, there = connection.execute(_USED, (cid,)).fetchone()
        theirs, held = connection.execute(_USED_BY, (cid, owner)).fetchone()
        if not held and theirs + size > self._most_per_owner:
            why = f"this node keeps at most {self._most_per_owner} bytes of blobs for you; delete some"
            raise BusError("capacity_exceeded", why)
        if not there and used + size > self._most_bytes:
            raise BusError(
                "capacity_exceeded", f"this node keeps at most {self._most_bytes} bytes of blobs; delete some"
            )

    async def _checked(self, cid: str) -> bytes:
        data = await self._content.read(cid)
        if await asyncio.to_thread(cid_of, data) != cid:
            raise BusError("internal_error", f"blob {cid} was changed in its store; store it again")
        return data


class _BlobFiles:
    """The bytes of blobs as files of a folder."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def write(self, index: SqlConnection, cid: str, data: bytes) -> None:
        path = self._path(cid)
        try:
            if path.is_file() and path.read_bytes() == data:
                return
            make_folder(path.parent)
            write_atomically(path, data)
        except OSError as error:
            raise BusError("internal_error", f"the blob cannot be written ({error.strerror})") from error

    async def read(self, cid: str) -> bytes:
        try:
            return await asyncio.to_thread(self._path(cid).read_bytes)
        except OSError as error:
            raise BusError("internal_error", f"blob {cid}: its file cannot be read ({error.strerror})") from error

    def remove(self, cid: str) -> None:
        self._path(cid).unlink(missing_ok=True)

    def _path(self, cid: str) -> Path:
        return file_of(self._folder, cid)


class _BlobRows:
    """The bytes of blobs beside their index in a shared state; each goes with its row there."""

    def __init__(self, tables: SqlDatabase) -> None:
        self._tables = tables

    def write(self, index: SqlConnection, cid: str, data: bytes) -> None:
        index.execute("INSERT INTO blob_content VALUES (?, ?) ON CONFLICT DO NOTHING", (cid, data))

    async def read(self, cid: str) -> bytes:
        asked = "SELECT data FROM blob_content WHERE cid = ?"
        row = await self._tables.read(lambda index: index.execute(asked, (cid,)).fetchone())
        if row is None:
            raise BusError("not_found", f"blob {cid} was deleted in the meantime; store it again")
        return bytes(row[0])

    def remove(self, cid: str) -> None:
        """Does nothing: the bytes went with the row of the blob."""


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
    shared = {"type": "boolean", "default": False, "description": "Share it with everybody who may call this node."}
    fields = {"data": data, "media_type": _MEDIA_TYPE, "shared": shared}
    return CapabilityDescriptor(
        name="blob.put",
        description=f"Store up to {most} bytes under their hash, so that other calls can refer to them.",
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
    description="Get the bytes of a blob that you stored, or that is shared.",
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
    description="Delete a blob that you stored, also for those with whom you shared it.",
    request_schema=_NAMED,
    response_schema=full_object({"deleted": {"type": "boolean", "description": "false if you have no such blob."}}),
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
        raise BusError("bad_request", f"input.data is not base64url: {error}") from error
