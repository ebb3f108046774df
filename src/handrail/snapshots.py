"""Tools and models of a node as source files in Python, TypeScript and Rust."""

from __future__ import annotations

from handrail.tools.snapshots.catalogue import CatalogueModel, CatalogueTool, NodeCatalogue, catalogue_of
from handrail.tools.snapshots.python import python_source
from handrail.tools.snapshots.rust import rust_source
from handrail.tools.snapshots.typescript import typescript_source

__all__ = [
    "CatalogueModel",
    "CatalogueTool",
    "NodeCatalogue",
    "catalogue_of",
    "python_source",
    "rust_source",
    "typescript_source",
]
