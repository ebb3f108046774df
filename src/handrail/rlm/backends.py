"""The models of an `RLM`, from whatever names them: a service, a service and a model, an `LLM`, a `Model`.

Arguments are taken in the spelling of `rlms` (`model_name`, `api_key`, `sampling_args`) and in ours.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from handrail.core.errors import UsageError
from handrail.core.ports import Model
from handrail.models.services import SERVICES
from handrail.rlm.query.functions import model_of
from handrail.sessions.create import create_llm
from handrail.sessions.llm import LLM

Backend = str | LLM | Model

READS = 400_000
"""Characters that a model is taken to read at once where nobody says otherwise."""
_CHARACTERS = 2
"""The characters counted for a token. A token has more, but the reply needs room too, and not every text is English."""
_SPELLINGS = {"model_name": "model", "api_key": "key"}


@dataclass(frozen=True, slots=True)
class BackendModel:
    """A model, and whether it is ours to close."""

    model: Model
    backend: str
    """The name by which the backend was given; for a model object, its own name."""
    owned: LLM | None = None
    window: int | None = None
    """Tokens of a conversation, where the model says so."""

    @property
    def reads(self) -> int:
        """Characters that it can be given at once."""
        return READS if self.window is None else self.window * _CHARACTERS


@dataclass(frozen=True, slots=True)
class RlmBackends:
    """The model that writes code, and those that its code asks."""

    root: BackendModel
    others: list[BackendModel]

    @property
    def sub(self) -> Model | None:
        """The model for code that names none."""
        return self.others[0].model if self.others else None

    @property
    def by_name(self) -> dict[str, Model]:
        return {each.model.name: each.model for each in self.others}

    @property
    def reads(self) -> int:
        """Characters that any of the models which code asks can be given at once."""
        return min(each.reads for each in self.others or [self.root])

    async def aclose(self) -> None:
        """Let go of those that were made here."""
        for each in (self.root, *self.others):
            if each.owned is not None:
                await each.owned.aclose()


def make_backend(backend: Backend, kwargs: Mapping[str, Any] | None = None) -> BackendModel:
    """The model that a program named or made.

    Raises:
        UsageError: There is no such service, or it lacks a model, a key or an address.
        MissingExtra: What it needs is not installed.
    """
    if not isinstance(backend, str):
        if kwargs:
            raise UsageError(
                f"arguments for {backend.name!r} come too late: it was made already; give its name instead"
            )
        return BackendModel(model_of(backend), backend.name, window=_window(backend))
    ours = _ours(kwargs or {})
    service = SERVICES.get(backend)
    if service is not None and service.model is None and "model" not in ours:
        raise UsageError(
            f"{backend!r} is a service, and no one can tell which of its models is meant; give '{backend}:<model>', or "
            "backend_kwargs={'model_name': '<model>'}"
        )
    llm = create_llm(backend, **ours)
    return BackendModel(model_of(llm), backend, llm, _window(llm))


def make_other_backends(
    backends: Sequence[Backend] | None, kwargs: Sequence[Mapping[str, Any] | None] | None
) -> list[BackendModel]:
    """The models that code may ask: the first by default, all by name.

    Raises:
        UsageError: There are arguments for more or fewer than there are, or two have one name.
    """
    given = list(backends or ())
    of_each = list(kwargs) if kwargs is not None else [None] * len(given)
    if len(of_each) != len(given):
        raise UsageError(f"other_backends has {len(given)} and other_backend_kwargs {len(of_each)}; give one for each")
    found = [make_backend(backend, own) for backend, own in zip(given, of_each, strict=True)]
    names = [each.model.name for each in found]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise UsageError(f"two of other_backends are called {twice!r}, and code asks them by name; leave one out")
    return found


def _window(backend: LLM | Model) -> int | None:
    said = getattr(backend.model if isinstance(backend, LLM) else backend, "window", None)
    return said if isinstance(said, int) and said > 0 else None


def _ours(kwargs: Mapping[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, value in kwargs.items():
        if name == "sampling_args":
            found.update(value or {})
        elif value is not None:
            found[_SPELLINGS.get(name, name)] = value
    return found
