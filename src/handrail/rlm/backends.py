"""The models of an `RLM`, from whatever names them: a service, a service and a model, an `LLM`, a `Model`.

Arguments are taken in the spelling of `rlms` (`model_name`, `api_key`, `sampling_args`) and in ours.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from handrail.core.errors import UsageError
from handrail.core.ports import Model
from handrail.faces.create import create_llm
from handrail.faces.llm import LLM
from handrail.rlm.query.functions import model_of

Backend = str | LLM | Model

_SPELLINGS = {"model_name": "model", "api_key": "key"}


@dataclass(frozen=True, slots=True)
class Made:
    """A model, and whether it is ours to close."""

    model: Model
    backend: str
    """How it was named; of one that was given, its own name."""
    owned: LLM | None = None


def made(backend: Backend, kwargs: Mapping[str, Any] | None = None) -> Made:
    """
    Raises:
        UsageError: There is no such service, or it lacks a model, a key or an address.
        MissingExtra: What it needs is not installed.
    """
    if not isinstance(backend, str):
        if kwargs:
            raise UsageError(
                f"arguments for {backend.name!r} come too late: it was made already; give its name instead"
            )
        return Made(model_of(backend), backend.name)
    llm = create_llm(backend, **_ours(kwargs or {}))
    return Made(model_of(llm), backend, llm)


def others_made(backends: Sequence[Backend] | None, kwargs: Sequence[Mapping[str, Any] | None] | None) -> list[Made]:
    """The models that code may ask: the first by default, all by name.

    Raises:
        UsageError: There are arguments for more or fewer than there are.
    """
    given = list(backends or ())
    of_each = list(kwargs) if kwargs is not None else [None] * len(given)
    if len(of_each) != len(given):
        raise UsageError(f"other_backends has {len(given)} and other_backend_kwargs {len(of_each)}; give one for each")
    return [made(backend, own) for backend, own in zip(given, of_each, strict=True)]


def _ours(kwargs: Mapping[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, value in kwargs.items():
        if name == "sampling_args":
            found.update(value or {})
        elif value is not None:
            found[_SPELLINGS.get(name, name)] = value
    return found
