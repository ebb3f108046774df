"""Whether git tracks a file or folder, read from its index. No git is run: a repository can say what its git runs."""

from __future__ import annotations

import os
import struct
from collections.abc import Iterator
from pathlib import Path

_LARGEST = 512 * 1024 * 1024
_LENGTH = 0x0FFF
_EXTENDED = 0x4000
_FIXED = 40
"""Bytes of an entry before the name of its content."""


def is_tracked(path: Path) -> bool:
    """Whether the nearest repository around a path has it, or something below it, in its index."""
    real = Path(os.path.realpath(path.parent), path.name)
    for folder in real.parents:
        git = folder / ".git"
        if not os.path.lexists(git):
            continue
        wanted = os.fsencode(real.relative_to(folder))
        return any(_holds(data, wanted) for data in _indexes(_git_folder(git)))
    return False


def _git_folder(git: Path) -> Path:
    """The folder of the repository; of a worktree or submodule, the one that its file names."""
    try:
        text = "" if git.is_dir() else git.read_text(encoding="utf-8", errors="surrogateescape")
    except OSError:
        return git
    return git.parent / text.removeprefix("gitdir:").strip() if text.startswith("gitdir:") else git


def _indexes(git: Path) -> Iterator[bytes]:
    """The index, and what it shares with others where it is split."""
    for file in (git / "index", *git.glob("sharedindex.*")):
        try:
            if file.stat().st_size <= _LARGEST:
                yield file.read_bytes()
        except OSError:
            continue


def _holds(data: bytes, wanted: bytes) -> bool:
    if len(data) < 12 or data[:4] != b"DIRC":
        return False
    version, count = struct.unpack(">II", data[4:12])
    if version == 4:
        return any(_is_within(name, wanted) for size in (20, 32) for name in _compressed(data, count, size))
    return any(_is_entry(data, at) for end in (b"/", b"\0") for at in _found(data, wanted + end))


def _is_within(name: bytes, wanted: bytes) -> bool:
    return name == wanted or name.startswith(wanted + b"/")


def _found(data: bytes, wanted: bytes) -> Iterator[int]:
    at = data.find(wanted)
    while at >= 0:
        yield at
        at = data.find(wanted, at + 1)


def _is_entry(data: bytes, at: int) -> bool:
    """Whether a whole name begins here: before it stand flags that hold its length."""
    length = min(data.find(b"\0", at) - at, _LENGTH)
    plain, extended = (int.from_bytes(data[at - back : at - back + 2], "big") for back in (2, 4))
    return (plain & _LENGTH == length and not plain & _EXTENDED) or (
        extended & _LENGTH == length and bool(extended & _EXTENDED)
    )


def _compressed(data: bytes, count: int, size: int) -> Iterator[bytes]:
    """The names of version 4: of each, how much of the one before is dropped, and what comes instead."""
    at, name = 12, b""
    for _ in range(count):
        at += _FIXED + size
        at += 4 if int.from_bytes(data[at : at + 2], "big") & _EXTENDED else 2
        dropped, at = _number(data, at)
        end = data.find(b"\0", at)
        if end < 0 or dropped > len(name):
            return
        name = name[: len(name) - dropped] + data[at:end]
        at = end + 1
        yield name


def _number(data: bytes, at: int) -> tuple[int, int]:
    """A number in git's offset encoding, and where it ends."""
    value = 0
    while at < len(data):
        byte = data[at]
        at += 1
        value = (value << 7) | (byte & 0x7F)
        if not byte & 0x80:
            break
        value += 1
    return value, at
