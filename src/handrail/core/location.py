"""Where a path argument of a call leads, in the one spelling that rules go by."""

from __future__ import annotations

from msgspec import Struct


class Location(Struct, frozen=True, kw_only=True):
    """A file or folder by its real path: without links, without `..`, in every root that it lies in."""

    names: tuple[str, ...]
    """Each `root:path` that names it, that of the innermost root first: the canonical one."""
    first: str
    """The root that a path is in which names none."""
    absolute: str
    """Its whole path on this machine."""
    tree: bool = False
    """Whether the call touches everything below it too, as deleting a folder does."""

    @property
    def canonical(self) -> str:
        return self.names[0]


Locations = dict[str, Location | None]
"""By the names of arguments; None where nobody can tell where one leads."""
