"""Files beneath named roots, and nothing else.

A path is never checked first and opened then: it is opened beneath the root's own
descriptor, by the kernel in one step (`openat2`) or by us name by name (`open_stepwise`), and
all that follows works on the descriptor. A root is fixed when it is set: if a part
of its path becomes a link, it can no longer be opened.

Rules go by a path's `location`: the real place that the kernel has resolved it to. When the
call then changes something, the folder that is open must be the one that was decided on.

Hard links are files of their own; one that leads to a file elsewhere cannot be told
from others, so nobody who is not trusted should be able to make one inside a root.
"""

from __future__ import annotations

import errno
import os
import stat
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from difflib import get_close_matches
from itertools import islice
from pathlib import PurePosixPath

from handrail.core.calls import ToolCall
from handrail.core.confirmation import Location
from handrail.core.context import Context
from handrail.core.errors import ToolError
from handrail.core.invocation import Invocation
from handrail.library.io import openat2 as kernel
from handrail.library.io.descriptor_paths import paths_in_roots
from handrail.library.io.settings import IoSettings
from handrail.library.io.stepwise_open import FOLDER, open_root, open_stepwise
from handrail.library.io.system_failures import system_failure

Beneath = Callable[[int, str, int, int], int]
"""Opens a path beneath a folder: descriptor, path, flags, mode. OSError EXDEV where it would lead out."""

READ = os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
"""The flags for reading. A pipe that nobody writes to would never open if the call waited."""
LISTED = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
BY_HAND = Invocation(ToolCall("", ""), {}, Context())
"""The call of a tool's function that somebody called as a function: nothing was decided on."""
_NEAR = 2_000
"""Names that are looked at to find what may have been meant."""
_KINDS = {
    stat.S_IFDIR: "a folder",
    stat.S_IFIFO: "a pipe",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
    stat.S_IFSOCK: "a socket",
    stat.S_IFLNK: "a link",
}


@dataclass(frozen=True, slots=True)
class ConfinedRoot:
    name: str
    given: PurePosixPath
    path: PurePosixPath
    """The path without links."""
    writable: bool
    first: bool
    """Whether paths that name no root are in it."""
    outermost: str
    """The root that it lies in, or itself: what is changed in one may have been read in the other."""


@dataclass(frozen=True, slots=True)
class ConfinedPath:
    """A place that a path leads to: a root, and the way from there."""

    root: ConfinedRoot
    path: str
    decided: Location | None = None
    """The place that the path led to when the call was decided on; a change must still lead there."""

    @property
    def shown(self) -> str:
        """The path as a model may write it again."""
        return self.path if self.root.first else f"{self.root.name}:{self.path}"

    def below(self, way: str) -> ConfinedPath:
        return ConfinedPath(self.root, way if self.path == "." else f"{self.path.rstrip('/')}/{way}")


def open_beneath(root: int, path: str, flags: int, mode: int) -> int:
    """Beneath, by the better way that there is here."""
    if not kernel.available():
        return open_stepwise(root, path, flags, mode)
    try:
        return kernel.openat2(root, path, flags, mode)
    except BlockingIOError:  # others rename folders all the time; the walk does not mind
        return open_stepwise(root, path, flags, mode)


class ConfinedFiles:
    """The roots of one ensemble. All its tools open files here."""

    def __init__(self, settings: IoSettings, beneath: Beneath = open_beneath) -> None:
        self._beneath = beneath
        real = {name: PurePosixPath(os.path.realpath(path)) for name, path in settings.roots.items()}
        self._roots = {
            name: ConfinedRoot(
                name,
                PurePosixPath(path),
                real[name],
                name in settings.write,
                name == next(iter(real)),
                # Of a folder and those it lies in, the outermost is also the first by name.
                min(str(other) for other in real.values() if real[name].is_relative_to(other)),
            )
            for name, path in settings.roots.items()
        }
        self.writing = threading.Lock()
        """Held while something is changed: two spellings of one path are not two files."""

    # ── where a path leads ───────────────────────────────────────────────────────────

    def place(self, path: str, *, write: bool = False, decided: Location | None = None) -> ConfinedPath:
        """Finds the root that a path is in, and the way from there.

        Raises:
            ToolError: It is in no root, or in none that may be written.
        """
        place = replace(self._place(path), decided=decided)
        if write and not place.root.writable:
            raise ToolError(
                "read_only", f"{place.shown!r} may only be read; {self._described(writable=True)} may be written"
            )
        return place

    def _place(self, path: str) -> ConfinedPath:
        if "\0" in path:
            raise ToolError("bad_path", "a path has no NUL character in it")
        try:
            os.fsencode(path)
        except UnicodeEncodeError:
            raise ToolError("bad_path", "the path has a character that no file name has") from None
        if path.startswith("/"):
            return self._absolute(path)
        name, colon, rest = path.partition(":")
        if colon and name in self._roots:
            return ConfinedPath(self._roots[name], rest or ".")
        return ConfinedPath(next(iter(self._roots.values())), path or ".")

    def _absolute(self, path: str) -> ConfinedPath:
        """Matches whole names, so that /data-evil is not in /data, and the path as written, so that no '..' leads
        in."""
        ways = [
            (len(base.parts), root, _below(path, base))
            for root in self._roots.values()
            for base in {root.given, root.path}
        ]
        found = [(length, root, way) for length, root, way in ways if way is not None]
        if not found:
            raise ToolError("outside_root", f"{path!r} is in no root; there are {self._described()}")
        _, root, way = max(found, key=lambda item: item[0])
        return ConfinedPath(root, way or ".")

    def _described(self, *, writable: bool = False) -> str:
        roots = [root for root in self._roots.values() if root.writable or not writable]
        return ", ".join(f"{root.name}: ({root.given})" for root in roots) or "none"

    def territory(self, *paths: str) -> str | None:
        """Where these paths are, for whoever waits or forgets; None if that is not one place.

        A file can be reached by many names, and to tell which would mean to ask the disk, which may not answer. So
        calls wait for, and forget, all that is in a root and in the roots inside it.
        """
        try:
            found = {self._place(path).root.outermost for path in paths}
        except ToolError:  # the call will be told
            return None
        return found.pop() if len(found) == 1 else None

    def location(self, path: str, *, tree: bool = False) -> Location | None:
        """Where a path leads that is to be changed, as the kernel resolves it; None if that cannot be told.

        A link in its last name is not followed, as no change follows one. Folders on the way that are not there yet
        are taken as they are named.
        """
        try:
            place = self._place(path)
            if place.path.startswith("/"):
                return None
            *way, last = _steps(place.path) or ["."]
            new = [] if last in (".", "..") else [last]
            way = way if new else [*way, last]
            while True:
                try:
                    with self.opened(ConfinedPath(place.root, "/".join(way) or "."), FOLDER) as folder:
                        return paths_in_roots(self._roots.values(), folder, new, tree=tree)
                except (FileNotFoundError, NotADirectoryError):
                    if not way or way[-1] == "..":
                        return None
                    new.insert(0, way.pop())
        except (OSError, ToolError):  # the call will be told
            return None

    def check_decided(self, place: ConfinedPath, folder: int, name: str, *, on_the_way: bool = False) -> None:
        """Hold a change of a name in an open folder to what was decided on, or to a folder on the way there.

        Raises:
            ToolError: It would be made elsewhere.
        """
        if place.decided is None:
            return
        now = paths_in_roots(self._roots.values(), folder, (name,))
        decided = PurePosixPath(place.decided.absolute)
        if now is None or PurePosixPath(now.absolute) not in (decided, *(decided.parents if on_the_way else ())):
            raise ToolError(
                "moved", f"{place.shown!r} leads elsewhere than when the call was decided on; nothing was changed"
            )

    # ── opening ──────────────────────────────────────────────────────────────────────

    @contextmanager
    def telling(self, place: ConfinedPath) -> Iterator[None]:
        """Errors of the system as answers."""
        try:
            yield
        except OSError as error:
            hint = self._hint(place) if error.errno == errno.ENOENT else ""
            raise system_failure(error, place.shown, hint) from error

    @contextmanager
    def opened(self, place: ConfinedPath, flags: int) -> Iterator[int]:
        """A descriptor of what the path leads to, closed afterwards."""
        descriptor = self._open(place, place.path, flags)
        try:
            yield descriptor
        finally:
            os.close(descriptor)

    @contextmanager
    def file(self, place: ConfinedPath) -> Iterator[tuple[int, os.stat_result]]:
        """An ordinary file, to read.

        Raises:
            ToolError: It is a folder, a pipe, a device.
        """
        with self.opened(place, READ) as descriptor:
            about = os.fstat(descriptor)
            check_ordinary_file(place, about)
            yield descriptor, about

    @contextmanager
    def parent(self, place: ConfinedPath, *, make: bool = False) -> Iterator[tuple[int, str]]:
        """The open folder that a path's last name is in, and that name: for what is made, renamed or removed.

        With `make`, the folders on the way are made.
        """
        way, name = _split(place)
        if make:
            self.make_folders(ConfinedPath(place.root, way, place.decided))
        with self.opened(ConfinedPath(place.root, way), FOLDER) as folder:
            self.check_decided(place, folder, name)
            yield folder, name

    def make_folders(self, place: ConfinedPath) -> bool:
        """Make a folder, and those it is in, on disk. Whether it was not there."""
        parts = _steps(place.path)
        new = False
        for depth, part in enumerate(parts):
            if part == "..":
                continue
            way = "/".join(parts[:depth]) or "."
            with self.opened(ConfinedPath(place.root, way), FOLDER) as folder:
                try:
                    if place.decided is not None and not _is_there(folder, part):
                        self.check_decided(place, folder, part, on_the_way=True)
                    os.mkdir(part, dir_fd=folder)
                    new = True
                except FileExistsError:
                    new = False
                else:
                    sync_renames(folder)
        with self.opened(place, FOLDER):
            return new

    def _open(self, place: ConfinedPath, path: str, flags: int) -> int:
        try:
            root = open_root(str(place.root.path))
        except OSError as error:
            raise ToolError(
                "no_root", f"root {place.root.name!r} ({place.root.given}) cannot be opened: {error.strerror}"
            ) from error
        try:
            return self._beneath(root, path, flags, 0)
        finally:
            os.close(root)

    # ── what may have been meant ─────────────────────────────────────────────────────

    def _hint(self, place: ConfinedPath) -> str:
        """The nearest names in the deepest folder on the way that is there."""
        parts = _steps(place.path)
        for depth in range(len(parts) - 1, -1, -1):
            folder = ConfinedPath(place.root, "/".join(parts[:depth]) or ".")
            try:
                with self.opened(folder, LISTED) as descriptor, os.scandir(descriptor) as entries:
                    names = [entry.name for entry in islice(entries, _NEAR)]
            except (OSError, ToolError):
                continue
            return _nearest(folder, parts[depth], names)
        return ""


def sync_renames(folder: int) -> None:
    """Have a change of names on disk, after it was made. Where that cannot be asked for, it is as safe as the system
    makes it.

    Raises:
        ToolError: The disk does not take it.
    """
    try:
        readable = os.open(".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=folder)
    except PermissionError:  # a folder in which names may be changed but not listed; the change is made
        return
    try:
        os.fsync(readable)
    except OSError as error:
        if error.errno != errno.EINVAL:
            raise ToolError(
                "not_on_disk",
                f"the change was made, but the disk did not take it ({error.strerror}); a crash may undo it",
            ) from error
    finally:
        os.close(readable)


def check_ordinary_file(place: ConfinedPath, about: os.stat_result) -> None:
    """Refuses folders, pipes and devices.

    Raises:
        ToolError: It is no ordinary file.
    """
    if not stat.S_ISREG(about.st_mode):
        kind = _KINDS.get(stat.S_IFMT(about.st_mode), "something special")
        instead = "; list_folder shows what is in it" if stat.S_ISDIR(about.st_mode) else ""
        raise ToolError("not_a_file", f"{place.shown!r} is {kind} and no ordinary file{instead}")


def _is_there(folder: int, name: str) -> bool:
    try:
        os.stat(name, dir_fd=folder, follow_symlinks=False)
    except FileNotFoundError:
        return False
    return True


def _steps(path: str) -> list[str]:
    return [part for part in path.split("/") if part not in ("", ".")]


def _below(path: str, base: PurePosixPath) -> str | None:
    """The way from a folder to a path, if the path begins with it."""
    parts = _steps(path)
    length = len(base.parts) - 1
    if tuple(parts[:length]) != base.parts[1:]:
        return None
    return "/".join(parts[length:]) + ("/" if path.endswith("/") and parts[length:] else "")


def _split(place: ConfinedPath) -> tuple[str, str]:
    way, _, name = place.path.rstrip("/").rpartition("/")
    if name in ("", ".", ".."):
        raise ToolError("bad_path", f"{place.shown!r} names nothing that can be changed; give a name inside a root")
    return way or ("/" if place.path.startswith("/") else "."), name


def _nearest(folder: ConfinedPath, name: str, names: list[str]) -> str:
    if name in names:
        return f"; {folder.below(name).shown!r} is a link that leads nowhere"
    alike = [other for other in names if other.lower() == name.lower()]
    near = alike or get_close_matches(name, names, n=3)
    if near:
        return f"; did you mean {' or '.join(repr(folder.below(other).shown) for other in near[:3])}?"
    return f"; there is no {name!r} in {folder.shown!r}"
