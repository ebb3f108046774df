"""The place of something below an open folder, as the kernel knows it: what rules on paths go by."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable
from pathlib import PurePosixPath
from typing import TYPE_CHECKING

from handrail.core.confirmation import Location

if TYPE_CHECKING:
    from handrail.library.io.confined_files import ConfinedRoot


def paths_in_roots(
    roots: Collection[ConfinedRoot], folder: int, names: Iterable[str] = (), *, tree: bool = False
) -> Location | None:
    """What has these names below an open folder, in every root that it lies in; None if that cannot be told."""
    real = path_of_descriptor(folder)
    if real is None:
        return None
    absolute = PurePosixPath(real, *names)
    inside = [root for root in roots if absolute.is_relative_to(root.path)]
    if not inside:
        return None
    innermost_first = sorted(inside, key=lambda root: -len(root.path.parts))
    found = tuple(f"{root.name}:{absolute.relative_to(root.path)}" for root in innermost_first)
    first = next(root.name for root in roots if root.first)
    return Location(names=found, first=first, absolute=str(absolute), tree=tree)


def path_of_descriptor(descriptor: int) -> str | None:
    """The path without links of what is open; None if it has none any more, or the kernel does not say."""
    try:
        if os.fstat(descriptor).st_nlink == 0:
            return None
        path = os.readlink(f"/proc/self/fd/{descriptor}")
        path.encode()
    except (OSError, UnicodeEncodeError):
        return None
    return path if path.startswith("/") else None
