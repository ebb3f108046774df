"""Ensembles from TOML files and from tables. An invoker without a body is found by its name, as the document does."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from handrail.compat.converser.invokers import Ensemble, Invoker, load_invocable, registered_tools
from handrail.execute.dedupe.create import create_deduplicator as create_deduplicator
from handrail.tools.files.load import read_ensemble
from handrail.tools.files.toml_table import read_toml_file

ENSEMBLES = Path("data/ensembles")
"""Where the document keeps its ensembles, from the folder that the program runs in."""


def load_ensemble(path: str | Path) -> Ensemble:
    """The ensemble of a file. The bodies of its invokers are those that `@register_invoker` registered.

    Raises:
        ConfigError: A file cannot be read, or something in it is wrong.
    """
    file = Path(path)
    read, _ = read_ensemble(read_toml_file(file), file.parent, registered_tools())
    made = Ensemble(read.name, read.all_tools.values(), enabled=read.enabled, defaults=read.defaults)
    offered = {tool.name for tool in read.tools} if read.enabled else set(read.all_tools)
    for name in read.all_tools.keys() - offered:
        made.disable(name)
    return made


def load_invoker_descriptors(ensemble: str, folder: str | Path = ENSEMBLES) -> dict[str, Any]:
    """The descriptors in `<folder>/<ensemble>/invokers/*.toml`, by the names of their invokers.

    Raises:
        ConfigError: A file cannot be read.
    """
    found: dict[str, Any] = {}
    for file in sorted((Path(folder) / ensemble / "invokers").glob("*.toml")):
        descriptor = dict(read_toml_file(file).values)
        found[descriptor.get("invoker", {}).get("name", file.stem)] = descriptor
    return found


async def prepare_invocables(provider_config: Mapping[str, Any]) -> list[Ensemble]:
    """The ensembles of a configuration, each invoker with the function that is registered under its name.

    Raises:
        UsageError: No function is registered under a name.
    """
    ensembles = []
    for described in provider_config["ensembles"]:
        made = Ensemble(described["name"], enabled=described.get("enabled", True))
        for invoker in described["invokers"]:
            if invoker.get("enabled", True):
                made.register(_invoker(invoker, made))
        await made.prepare()
        ensembles.append(made)
    return ensembles


def _invoker(described: Mapping[str, Any], ensemble: Ensemble) -> Invoker:
    return Invoker(
        described["name"],
        load_invocable(described["name"]),
        msgspec.to_builtins(described["arguments"]),
        ensemble,
        create_deduplicator(described.get("deduplicator")),
        description=described.get("description", ""),
    )
