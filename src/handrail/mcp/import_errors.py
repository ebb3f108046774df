"""Why the official package could not be imported: it is not installed, or a file of the user stands before it."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, distribution
from importlib.util import find_spec
from pathlib import Path

from handrail.core.errors import MissingExtra, UsageError


def import_failure(error: ImportError, what: str) -> Exception:
    """What to raise in place of the error of an import that `what` needs; our own mistakes are left as they are."""
    if (error.name or "").startswith("handrail"):
        return error
    try:
        theirs = Path(str(distribution("mcp").locate_file("mcp/__init__.py")))
    except PackageNotFoundError:
        return MissingExtra(what, "mcp")
    found = find_spec("mcp")
    origin = None if found is None or found.origin is None else Path(found.origin)
    if origin is None or origin.resolve() == theirs.resolve():
        return MissingExtra(what, "mcp")
    return UsageError(f"{what} needs the package 'mcp', and {str(origin)!r} stands before it; rename that file")
