"""What a run is asked about: text, JSON values, files and directories of any size, read by a REPL piece by piece."""

from __future__ import annotations

from handrail.rlm.contexts.load import Context, Files, HeldContext, load

__all__ = ["Context", "Files", "HeldContext", "load"]
