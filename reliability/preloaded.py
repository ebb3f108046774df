"""What every process of the table imports, imported once before they are forked. Nothing here may start a thread."""

from __future__ import annotations
