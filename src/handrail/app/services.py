"""The services of a node: each made of what the configuration says of it, and of what it needs."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterator
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING

from handrail.app.app import cancel_and_wait
from handrail.app.models import model_names, open_model, settings_of
from handrail.app.node_state import NodeState
from handrail.config.values import Config
from handrail.config.variables import secret_variable
from handrail.core.errors import HandrailError, MissingExtra, UsageError
from handrail.core.ports import Embedder, Model
from handrail.core.redact import Secret
from handrail.node.capability_bus import CapabilityBus, CapabilityService
from handrail.node.services.apertium import ApertiumBackend
from handrail.node.services.auth import AuthService
from handrail.node.services.blobs import BlobService, BlobStore
from handrail.node.services.chat import ChatService
from handrail.node.services.event_log import EventLog
from handrail.node.services.img.service import ImgService
from handrail.node.services.llm.service import LlmService
from handrail.node.services.market import MarketService
from handrail.node.services.peers import PeersService
from handrail.node.services.rag.index import DocumentIndex
from handrail.node.services.rag.service import RagService
from handrail.node.services.stt.remote import RemoteRecogniser
from handrail.node.services.stt.service import SttService
from handrail.node.services.translation import ModelBackend, TransService
from handrail.node.tokens.identity import Identity
from handrail.node.tokens.token_store import TokenStore

if TYPE_CHECKING:
    import os
    from collections.abc import Mapping

    from handrail.sessions.llm import LLM

logger = logging.getLogger(__name__)

_RESEND = 30.0
"""Seconds between two tries at messages that wait for their recipient."""


class LentModels:
    """The models that others may ask, each opened when it is first asked."""

    def __init__(self, config: Config) -> None:
        self._config = config
        self._open: dict[str, LLM] = {}

    @property
    def names(self) -> tuple[str, ...]:
        """The default one first."""
        return self._config.services.models or model_names(self._config)

    def llm(self, name: str | None = None) -> LLM:
        """The model of this name, or the first one.

        Raises:
            UsageError: There is no such model, or others may not ask it.
        """
        wanted = name or self.names[0]
        if wanted not in self.names:
            raise UsageError(f"there is no model {wanted!r} here; there are {', '.join(self.names)}")
        if wanted not in self._open:
            self._open[wanted] = open_model(self._config, wanted)
        return self._open[wanted]

    def model(self, name: str) -> Model:
        return self.llm(name).model

    async def aclose(self) -> None:
        while self._open:
            await self._open.popitem()[1].aclose()


class ServiceMaker:
    """Makes what a configuration asks for; whatever must be closed goes onto the stack."""

    def __init__(
        self,
        config: Config,
        bus: CapabilityBus,
        *,
        state: NodeState,
        models: LentModels,
        stack: AsyncExitStack,
        environ: Mapping[str, str] | os._Environ[str],
    ) -> None:
        self._config = config
        self._settings = config.services
        self._bus = bus
        self._state = state
        self._folder = config.services.folder or state.folder
        self._models = models
        self._stack = stack
        self._environ = environ

    def all(self, identity: Identity, store: TokenStore) -> Iterator[CapabilityService]:
        node, has = self._config.node, self._settings.has
        yield AuthService(identity, store, community=node.community)
        yield PeersService(self._bus, {identity.node_id: node.name})
        if has("llm"):
            most = self._config.limits.iterations
            yield LlmService(self._models.model, default=self._models.names[0], max_iterations=most)
        blobs = BlobStore(self._state.file("blobs", self._folder))
        self._stack.callback(blobs.close)
        if has("blobs"):
            yield BlobService(blobs)
        if has("rag"):
            index = DocumentIndex(self._folder / "rag.db", _embedder())
            self._stack.callback(index.close)
            yield RagService(index, blobs=blobs)
        if has("trans"):
            yield self._trans()
        if has("market") or has("chat"):
            log = EventLog(self._state.file("events.db", self._folder))
            self._stack.callback(log.close)
            if has("market"):
                yield MarketService(log, node_id=identity.node_id)
            if has("chat"):
                chat = ChatService(log, node_id=identity.node_id, bus=self._bus)
                self._stack.push_async_callback(cancel_and_wait, asyncio.create_task(_keep_sending(chat)))
                yield chat
        if has("img"):
            yield ImgService(blobs, model=self._lent(self._settings.describer))
        if has("stt"):
            yield self._stt(blobs)

    def _trans(self) -> TransService:
        model = self._lent(self._settings.translator)
        return TransService(
            model=None if model is None else ModelBackend(model()), apertium=ApertiumBackend.installed()
        )

    def _stt(self, blobs: BlobStore) -> SttService:
        url = self._settings.transcriber
        if url is None:
            return SttService(blobs)
        key = secret_variable(self._settings.transcriber_key, "services.stt.key", self._environ)
        service = RemoteRecogniser(url, key=None if key is None else Secret(key))
        self._stack.push_async_callback(service.aclose)
        return SttService(blobs, service=service)

    def _lent(self, name: str | None) -> Callable[[], Model] | None:
        """A model that a service asks, which others need not be able to ask."""
        if name is None:
            return None
        settings_of(self._config, name)  # a mistake shows now, and the model is opened when it is needed
        opened: list[LLM] = []

        async def close() -> None:
            while opened:
                await opened.pop().aclose()

        def model() -> Model:
            if not opened:
                opened.append(open_model(self._config, name))
            return opened[0].model

        self._stack.push_async_callback(close)
        return model


async def _keep_sending(chat: ChatService) -> None:
    """What could not be delivered is tried again, also after a new start."""
    while True:
        await asyncio.sleep(_RESEND)
        try:
            await chat.flush()
        except HandrailError:
            logger.exception("queued messages could not be sent; handrail keeps trying")


def _embedder() -> Embedder | None:
    """The embedder of the node. Without one, documents are found by their words alone, and the answers say so."""
    from handrail.sessions.store.embedding import WordLlamaEmbedder

    try:
        return WordLlamaEmbedder()
    except MissingExtra:
        return None
