"""Sources of resources that need nothing but this machine.

`FolderSource` gives the text files of a folder. A path is followed step by step from the folder's own
descriptor, and no step may be a symbolic link, so nothing outside can be reached, whatever is changed meanwhile.
"""

from __future__ import annotations

import asyncio
import errno
import mimetypes
import os
import stat
from collections.abc import Generator, Iterator, Sequence
from contextlib import closing, contextmanager
from itertools import islice
from pathlib import Path
from urllib.parse import quote, unquote

from handrail.core.errors import UsageError
from handrail.core.jsontext import is_unicode
from handrail.mcp.values import RemoteResource, ResourceBody

LARGEST = 4 * 1024 * 1024
"""Bytes of a file that is read."""
MOST = 5_000
"""Files that are listed."""
_DEEPEST = 32
_ABSENT = frozenset({errno.ENOENT, errno.ENOTDIR, errno.ELOOP, errno.ENAMETOOLONG, errno.ENXIO})
"""What it means that there is nothing to read here. A link gives ELOOP: it may lead anywhere."""
_STEP = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC


class FolderSource:
    """A corpus: the files under a folder as `corpus://<name>/<path>`. Hidden files and links are left out."""

    def __init__(self, name: str, root: str | os.PathLike[str]) -> None:
        self.name = name
        self._root = Path(root)
        if not self._root.is_dir():
            raise UsageError(f"the corpus {name!r} has no folder {str(root)!r}; make it, or name another")
        self._base = f"corpus://{quote(name, safe='')}/"
        self._template = f"{self._base}{{+path}}"

    async def list(self) -> Sequence[RemoteResource]:
        whole = RemoteResource(
            uri=self._template, name=self.name, description=f"A file of the corpus {self.name!r}", template=True
        )
        return [whole, *await asyncio.to_thread(self._files)]

    async def read(self, uri: str) -> Sequence[ResourceBody] | None:
        if not uri.startswith(self._base):
            return None
        data = await asyncio.to_thread(self._read, unquote(uri.removeprefix(self._base)))
        if data is None:
            return None
        kind = _media_type(uri)
        try:
            return [ResourceBody(uri=uri, media_type=kind, text=data.decode())]
        except UnicodeDecodeError:
            return [ResourceBody(uri=uri, media_type=kind, data=data)]

    async def complete(self, template: str, argument: str, value: str) -> Sequence[str] | None:
        if template != self._template or argument != "path":
            return None
        names = (unquote(each.uri.removeprefix(self._base)) for each in await asyncio.to_thread(self._files))
        return [name for name in names if name.startswith(value)]

    def _files(self) -> Sequence[RemoteResource]:
        found: list[RemoteResource] = []
        with _open(self._root, os.O_RDONLY | os.O_DIRECTORY) as root, closing(_walk(root, (), _DEEPEST)) as files:
            for path, size in islice(files, MOST):
                uri = f"{self._base}{quote('/'.join(path))}"
                found.append(RemoteResource(uri=uri, name=path[-1], media_type=_media_type(path[-1]), size=size))
        return found

    def _read(self, path: str) -> bytes | None:
        """The file, or None if there is none that may be read."""
        steps = path.split("/")
        if not all(map(_plain, steps)) or len(steps) > _DEEPEST:
            return None
        here = os.open(self._root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            for step in steps[:-1]:
                above, here = here, os.open(step, _STEP | os.O_DIRECTORY, dir_fd=here)
                os.close(above)
            # A pipe must not be waited for.
            above, here = here, os.open(steps[-1], _STEP | os.O_NONBLOCK, dir_fd=here)
            os.close(above)
            return _contents(here)
        except OSError as error:
            if error.errno in _ABSENT:
                return None
            raise
        finally:
            os.close(here)


def _contents(file: int) -> bytes | None:
    facts = os.fstat(file)
    if not stat.S_ISREG(facts.st_mode):
        return None
    if facts.st_size > LARGEST:
        raise UsageError(f"the file has {facts.st_size:,} bytes; no more than {LARGEST:,} are sent")
    with open(file, "rb", closefd=False) as reading:
        data = reading.read(LARGEST + 1)
    if len(data) > LARGEST:
        raise UsageError(f"the file grows while it is read; no more than {LARGEST:,} bytes are sent")
    return data


@contextmanager
def _open(path: str | Path, flags: int, folder: int | None = None) -> Iterator[int]:
    opened = os.open(path, flags | os.O_CLOEXEC, dir_fd=folder)
    try:
        yield opened
    finally:
        os.close(opened)


def _walk(folder: int, path: tuple[str, ...], depth: int) -> Generator[tuple[tuple[str, ...], int]]:
    """The files in order, each with its size; what cannot be looked at is passed over."""
    with os.scandir(folder) as found:
        entries = sorted(found, key=lambda entry: entry.name)
    for entry in entries:
        if not _plain(entry.name):
            continue
        try:
            if entry.is_file(follow_symlinks=False):
                yield (*path, entry.name), entry.stat(follow_symlinks=False).st_size
            elif depth > 0 and entry.is_dir(follow_symlinks=False):
                with _open(entry.name, _STEP | os.O_DIRECTORY, folder) as inner:
                    yield from _walk(inner, (*path, entry.name), depth - 1)
        except OSError:
            continue


def _plain(name: str) -> bool:
    """A name that is one step down, not hidden, and can be written in an address."""
    return bool(name) and not name.startswith(".") and "/" not in name and "\0" not in name and is_unicode(name)


def _media_type(name: str) -> str:
    kind, _ = mimetypes.guess_type(name, strict=False)
    return kind or "text/plain"
