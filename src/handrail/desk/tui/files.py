"""Files that a person names: read, and written without ever taking the place of another. They block."""

from __future__ import annotations

import mimetypes
from pathlib import Path

from handrail.core.errors import UsageError
from handrail.desk.values import AttachedFile

_MOST = 64 << 20


def read_named_file(path: str) -> bytes:
    """Raises:
    UsageError: It cannot be read, or is far too large.
    """
    file = Path(path).expanduser()
    try:
        if file.stat().st_size > _MOST:
            raise UsageError(f"{path!r} is larger than {_MOST >> 20} MB; name a smaller file")
        return file.read_bytes()
    except OSError as error:
        raise UsageError(f"{path!r} cannot be read: {error.strerror}") from error


def read_attachment(path: str) -> AttachedFile:
    """Raises:
    UsageError: As `read_named_file`.
    """
    name = Path(path).name
    return AttachedFile(name=name, media_type=mimetypes.guess_type(name)[0] or "text/plain", data=read_named_file(path))


def write_new(path: str, data: bytes) -> Path:
    """Raises:
    UsageError: Something is there already, or it cannot be written.
    """
    file = Path(path).expanduser()
    try:
        with file.open("xb") as out:
            out.write(data)
    except OSError as error:
        raise UsageError(f"{path!r} cannot be written: {error.strerror}; name another file") from error
    return file.resolve()
