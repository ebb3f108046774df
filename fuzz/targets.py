"""Every target by its name."""

from __future__ import annotations

from fuzz import (
    asked,
    clients,
    doors,
    files,
    frames,
    io_tools,
    media,
    nodes,
    probability,
    records,
    repls,
    servers,
    sockets,
    spoken,
    texts,
    wires,
)

_MODULES = (
    *(wires, texts, records, files, nodes, servers, spoken, clients, io_tools, probability),
    *(doors, frames, asked, media, sockets, repls),
)
TARGETS = {target.name: target for module in _MODULES for target in module.TARGETS}
