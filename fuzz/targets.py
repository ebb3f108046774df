"""Every target by its name."""

from __future__ import annotations

from fuzz import files, records, texts, wires

TARGETS = {target.name: target for module in (wires, texts, records, files) for target in module.TARGETS}
