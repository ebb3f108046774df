"""The real model, once for all tests that ask it something."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import pytest

from handrail.models.local.model import LocalModel, create_local
from handrail.models.local.weights import EngineFiles, default_files, find_weights
from handrail.sessions.store.embedding import WordLlamaEmbedder

# A checkout that was not installed with its second distribution still has it.
if find_spec("handrail_local") is None:
    sys.path.append(str(Path(__file__).parents[3] / "packages" / "handrail-local" / "src"))


@pytest.fixture(scope="session")
def files() -> EngineFiles:
    if find_weights() is None:
        pytest.fail("the weights of the local model are missing; run: .venv/bin/python scripts/setup_local.py")
    return default_files()


@pytest.fixture(scope="session")
def local(files: EngineFiles) -> Iterator[LocalModel]:
    model = create_local(embedder=WordLlamaEmbedder)
    yield model
    model.close()
