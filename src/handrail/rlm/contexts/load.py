"""Any context, held: small values go into the REPL, what is large stays here and is read from there piece by piece."""

from __future__ import annotations

import asyncio
import io
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from hashlib import sha256
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import msgspec

from handrail.core.closing import ClosedOnExit
from handrail.core.errors import UsageError
from handrail.core.jsontext import why_not_json
from handrail.rlm.contexts import describe, prelude
from handrail.rlm.contexts.file_listing import ContextFileListing, list_files
from handrail.rlm.contexts.scan import ContextFileChanged
from handrail.rlm.contexts.text_library import TextLibrary
from handrail.rlm.contexts.text_storage import Stored, encode_utf8, spill, spill_all, spill_bytes
from handrail.sandbox.port import JSON, HostError

HELD_OUTSIDE = 4_000_000
"""Characters, or bytes of JSON, from which a context is held outside of the REPL."""


@dataclass(frozen=True, slots=True)
class Files:
    """Files and directories as a context. Nothing is read of a directory's files but their first bytes until asked."""

    paths: tuple[Path, ...]

    @classmethod
    def of(cls, *paths: str | Path) -> Files:
        return cls(tuple(map(Path, paths)))


Context = Any
"""str, bytes, a list or dict of JSON values, Path, `Files`, a list of paths, or a stream of bytes such as stdin."""


async def load(context: Context, *, variable: str = "context", most: int = HELD_OUTSIDE) -> HeldContext:
    """Hold a context until `aclose`.

    Raises:
        UsageError: It is none of those, or a path cannot be read, or it is no text.
        MissingExtra: It is a PDF, and nothing here reads it.
    """
    if not variable.isidentifier():
        raise UsageError(f"a context needs the name of a variable, not {variable!r}")
    try:
        return await _load(context, variable, most)
    except OSError as error:
        raise UsageError(f"the context cannot be read: {error.strerror or error}") from error


async def _load(context: Context, variable: str, most: int) -> HeldContext:
    match context:
        case Path():
            return await _files(variable, (context,), most)
        case Files(paths):
            return await _files(variable, paths, most)
        case [Path(), *_]:
            return await _files(variable, _paths(context), most)
        case str() if len(context) <= most:
            return _bound(variable, context.encode("utf-8", "replace").decode())
        case str():
            return await _text(variable, encode_utf8(context), "a text", most)
        case bytes() | bytearray():
            return await _bytes(variable, io.BytesIO(context), "a text", most)
        case list() | dict():
            data = await asyncio.to_thread(_json, context)
            return _value(variable, context, data) if len(data) <= most else await _large(variable, context, data)
        case _ if hasattr(context, "read"):
            return await _bytes(variable, context, "a text that was piped in", most)
    raise UsageError(
        f"a context of type {type(context).__name__!r} cannot be held; give text, a list or dict of JSON values, "
        "a Path, Files.of(…), or a stream of bytes"
    )


def _bound(variable: str, text: str) -> HeldContext:
    return HeldContext(
        variable=variable,
        bind={variable: text},
        description=describe.of_str(variable, "a text", len(text), text.count("\n") + 1, is_broken=False),
        digest=sha256(text.encode()).hexdigest(),
    )


def _value(variable: str, value: Any, data: bytes) -> HeldContext:
    return HeldContext(
        variable=variable,
        bind={variable: msgspec.json.decode(data)},
        description=describe.of_value(variable, value, len(data)),
        digest=sha256(data).hexdigest(),
    )


def _json(value: Any) -> bytes:
    if (why := why_not_json(value)) is not None:
        raise UsageError(f"a context must be text or JSON values: {why}")
    return msgspec.json.encode(value)


async def _large(variable: str, value: list[Any] | dict[str, Any], data: bytes) -> HeldContext:
    """Texts by their numbers or keys; whatever else as the text of its JSON."""
    named = value if isinstance(value, dict) else {str(at): item for at, item in enumerate(value)}
    what = f"a {type(value).__name__} of {len(value):,}"
    if not all(isinstance(item, str) for item in named.values()):
        return await _text(variable, iter([msgspec.json.format(data, indent=1)]), f"the JSON of {what} items", 0)
    written = await asyncio.to_thread(spill_all, map(encode_utf8, named.values()))
    sizes = [len(text) for text in named.values()]
    return _held_files(
        variable, ContextFileListing(dict(zip(named, written, strict=True))), f"{what} texts", sizes, "characters"
    )


async def _files(variable: str, paths: tuple[Path, ...], most: int) -> HeldContext:
    if not paths:
        raise UsageError("there is no file to read; name at least one")
    found = await asyncio.to_thread(list_files, paths, find_spec("pypdf") is not None)
    if len(paths) == 1 and not paths[0].is_dir():
        ((name, stored),) = found.texts.items()
        return await _one(variable, name, stored, f"the text of the file {describe.quoted(name)}", most)
    if not found.texts:
        raise UsageError(f"there is no text in {', '.join(map(str, paths))}.{describe.left_out_of(found.left_out)}")
    folder = describe.quoted(paths[0].resolve().name)
    what = f"the directory {folder}" if len(paths) == 1 else f"what is in {len(paths)} paths"
    sizes = [stored.end - stored.start for stored in found.texts.values()]
    return _held_files(variable, found, what, sizes, "bytes")


async def _text(variable: str, pieces: Iterator[bytes], what: str, most: int) -> HeldContext:
    return await _one(variable, "", await asyncio.to_thread(spill, pieces), what, most)


async def _bytes(variable: str, stream: Any, what: str, most: int) -> HeldContext:
    stop = threading.Event()
    try:
        stored = await asyncio.to_thread(spill_bytes, stream, stop)
    finally:
        stop.set()
    if stored.form == "binary":
        stored.close()
        raise UsageError("the context is not a text; give text in UTF-8, UTF-16 or UTF-32, or a PDF")
    return await _one(variable, "", stored, what, most)


async def _one(variable: str, name: str, stored: Stored, what: str, most: int) -> HeldContext:
    library = TextLibrary({name: stored})
    try:
        text = await library.text(name)
        whole = await asyncio.to_thread(text.read, 0, text.size) if text.size <= most else None
    except (HostError, ContextFileChanged) as error:
        library.close()
        raise UsageError(f"the context cannot be read: {error}") from error
    except BaseException:
        library.close()
        raise
    facts = (what, text.size, text.breaks + 1, text.is_broken)
    if whole is not None:
        library.close()
        return HeldContext(
            variable=variable,
            bind={variable: whole},
            description=describe.of_str(variable, *facts),
            digest=library.digest(),
        )
    return HeldContext(
        variable=variable,
        prelude=prelude.of_text(variable, name, text.size, text.breaks + 1),
        description=describe.of_text(variable, *facts),
        digest=library.digest(),
        library=library,
    )


def _held_files(variable: str, found: ContextFileListing, what: str, sizes: list[int], unit: str) -> HeldContext:
    library = TextLibrary(found.texts)
    files = [{"name": name, "size": size} for name, size in zip(found.texts, sizes, strict=True)]
    return HeldContext(
        variable=variable,
        bind={f"_{variable}_files": files},
        prelude=prelude.of_files(variable, f"_{variable}_files"),
        description=describe.of_files(variable, what, sizes, unit, found.left_out),
        digest=library.digest(),
        library=library,
    )


def _paths(items: list[Any]) -> tuple[Path, ...]:
    if not all(isinstance(item, Path) for item in items):
        raise UsageError("a list of paths must have nothing else in it; for texts and files together, give two runs")
    return tuple(items)


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldContext(ClosedOnExit):
    variable: str
    """What code calls it."""
    bind: dict[str, JSON] = field(default_factory=dict)
    """Variables to `put` before the prelude runs."""
    prelude: str = ""
    """Python to run in the REPL before the first cell; empty if nothing is held outside."""
    description: str
    """The context in words for the model: what it is, how large, and how to read it."""
    digest: str
    """The same when a run is taken up again over the same context."""
    library: TextLibrary | None = None

    def serves(self, name: str) -> bool:
        """Whether `_host(name, …)` is for this context."""
        return self.library is not None and name.startswith(f"{self.variable}.")

    async def serve(self, name: str, value: JSON) -> JSON:
        """Answer `_host(name, value)` of a cell. Nothing changes by it, so it may be asked again.

        Raises:
            HostError: In words for the one who wrote the code.
        """
        if self.library is None or not self.serves(name):
            raise HostError(f"nothing answers to {name!r} here", "NameError")
        return await self.library.answer(name.removeprefix(f"{self.variable}."), value)

    async def aclose(self) -> None:
        if self.library is not None:
            self.library.close()
