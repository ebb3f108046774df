"""The models that sessions of this process have by name: sessions that name one alike share it and its connections,
and the last one closes it."""

from __future__ import annotations

from handrail.core.ports import Model
from handrail.core.shared_uses import SharedUses
from handrail.models.codec_model import CodecModel
from handrail.sessions.create import create_llm
from handrail.sessions.llm import LLM

_models: SharedUses[Model] = SharedUses()


class NamedModel:
    """A model that one session has by its name, and others may have too.

    They have another one where the environment meanwhile has another key or address for it, and where a service keeps
    connections of its own kind.
    """

    def __init__(self, name: str) -> None:
        made = create_llm(name)
        self._name = name
        self._use = _models.join(name, self, made.model, lambda known: _is_same(known, made.model))
        self.llm: LLM = LLM(self._use.value, **made.settings)

    def use_again(self) -> None:
        """Uses the models again for a session that was closed and gets another prompt."""
        model = self.llm.model
        if self not in self._use.users:
            self._use = _models.join(self._name, self, model, lambda known: known is model)

    async def aclose(self) -> None:
        """Let go of it; the last one closes its connections."""
        if self in self._use.users and _models.leave(self._use, self):
            await self.llm.aclose()


def _is_same(known: Model, made: Model) -> bool:
    return isinstance(known, CodecModel) and isinstance(made, CodecModel) and known.asks_as(made)
