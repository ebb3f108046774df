"""Every target by its name."""

from __future__ import annotations

from fuzz import clients, files, io_tools, nodes, probability, records, servers, spoken, texts, wires

_MODULES = (wires, texts, records, files, nodes, servers, spoken, clients, io_tools, probability)
TARGETS = {target.name: target for module in _MODULES for target in module.TARGETS}
