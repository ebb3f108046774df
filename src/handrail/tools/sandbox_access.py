"""What a tool with `isolation="sandbox"` may see and use beside its own code: what it names, and nothing else."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from handrail.core.errors import InvalidDefinition

_SYSTEM = (Path("/proc"), Path("/sys"), Path("/dev"))
_OWN = Path("/tmp")
"""The folder that each sandbox has for itself."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SandboxAccess:
    """One value for code and for the `sandbox` table of a file.

    There is nothing to name for writing: files that a tool makes end with its
    sandbox. What is to be kept it returns, as a value or as an attachment.
    """

    read: tuple[str | os.PathLike[str], ...] = ()
    """Files and directories, seen at their own paths and never changed. Relative ones begin at the working directory
    of the moment at which this value is made."""
    memory_bytes: int | None = None
    """Memory beyond that of the bare worker. None, here and below, takes the policy's limit."""
    cpu_seconds: float | None = None
    """Processor time for one call, over all its threads, rounded up to whole seconds."""
    disk_bytes: int | None = None
    """Files in its own /tmp, which are kept in memory."""
    reuse: bool = True
    """Whether a later call may find the same process, with its variables and files. Say False where callers must not
    learn of each other; then each call waits for a new one."""

    def __post_init__(self) -> None:
        if isinstance(self.read, str | os.PathLike):
            raise InvalidDefinition(f"read must be a tuple of paths; write read=({os.fspath(self.read)!r},)")
        object.__setattr__(self, "read", tuple(Path(os.path.abspath(path)) for path in self.read))
        for path in self.paths:
            if path == _OWN or any(_is_of_the_system(each) for each in (path, Path(os.path.realpath(path)))):
                raise InvalidDefinition(f"no sandbox may be shown {str(path)!r}; name the files that the tool needs")
        for name in ("memory_bytes", "cpu_seconds", "disk_bytes"):
            value = getattr(self, name)
            if value is not None and not value > 0:
                raise InvalidDefinition(f"{name} of a sandbox must be more than 0, not {value!r}")

    @property
    def paths(self) -> tuple[Path, ...]:
        """What may be read, absolute."""
        return tuple(Path(path) for path in self.read)


def _is_of_the_system(path: Path) -> bool:
    return any(path.is_relative_to(each) or each.is_relative_to(path) for each in _SYSTEM)
