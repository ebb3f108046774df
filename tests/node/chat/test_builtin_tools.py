"""Every built-in tool, called with all of its arguments on a node that has the real services."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from handrail import CapabilityBus, ToolCall, ToolExecutor
from handrail.node.chat.builtin_tools import BUILTIN
from handrail.node.services.blobs import BlobStore
from handrail.node.services.chat import ChatService
from handrail.node.services.event_log import EventLog
from handrail.node.services.img.service import ImgService
from handrail.node.services.market import MarketService
from handrail.node.services.peers import PeersService
from handrail.node.services.rag.index import DocumentIndex
from handrail.node.services.rag.service import RagService
from handrail.node.services.stt.service import SttService
from handrail.node.services.translation import ModelBackend, TransService
from handrail.testing.embedding import WordEmbedder
from handrail.testing.model import ScriptedModel, text

pytestmark = pytest.mark.requirement("hearthnet.builtin-tools")

NOWHERE = "blake3:" + "0" * 64
ARGUMENTS: dict[str, dict[str, Any]] = {
    "search_corpus": {"query": "rain", "corpus": "village", "k": 3, "filter": {"language": "en", "min_year": 1990}},
    "list_corpora": {},
    "translate": {"text": "Regen", "from": "de", "to": "en", "domain": "weather"},
    "find_neighbour": {"capability": "rag.query"},
    "list_marketplace": {"category": "offer", "tags": ["eggs"], "limit": 5},
    "describe_image": {"image_cid": NOWHERE, "task": "ocr", "language": "en"},
    "transcribe_audio": {"audio_cid": NOWHERE, "language": "en"},
    "post_to_marketplace": {
        "category": "offer",
        "title": "Eggs",
        "body": "Six.",
        "tags": ["eggs"],
        "ttl_seconds": 60,
    },
    "send_message": {"recipient": "ed25519:ben", "body": "Hello."},
}


@pytest.fixture
async def node(tmp_path: Path) -> AsyncIterator[CapabilityBus]:
    blobs, log = BlobStore(tmp_path / "blobs"), EventLog()
    async with CapabilityBus(node_id="ed25519:here") as bus:
        for service in (
            RagService(DocumentIndex(None, WordEmbedder())),
            TransService(model=ModelBackend(ScriptedModel([text("rain")]))),
            PeersService(bus, {"ed25519:ben": "Ben"}),
            MarketService(log),
            ChatService(log, node_id="ed25519:here", bus=bus),
            ImgService(blobs),
            SttService(blobs),
        ):
            bus.register_service(service)
        document = {"text": "Rain is kept in the cistern.", "language": "en", "metadata": {"year": 1999}}
        await bus.call("rag.ingest", (1, 0), {"params": {"corpus": "village"}, "input": document})
        yield bus
    blobs.close()


@pytest.mark.parametrize("name", list(BUILTIN))
async def test_a_built_in_tool_reaches_a_service_that_understands_all_of_its_arguments(
    node: CapabilityBus, name: str
) -> None:
    assert ARGUMENTS[name].keys() == BUILTIN[name].input_schema["properties"].keys()
    ended: list[tuple[str, str]] = []
    node.listeners.append(lambda event: ended.append((f"{event.capability}@{event.version}", event.result)))

    executor = ToolExecutor(node, [name], require_confirmation=False)
    result = await executor.dispatch(ToolCall("tc_1", name, ARGUMENTS[name]))

    binding = BUILTIN[name].binding
    assert binding is not None
    without_blob = name in ("describe_image", "transcribe_audio")
    assert (binding.scope, "not_found" if without_blob else "ok") in ended
    match name:
        case "search_corpus":
            assert result.content["chunks"][0]["text"] == "Rain is kept in the cistern."
        case "find_neighbour":
            assert [peer["node_id"] for peer in result.content["peers"]] == ["ed25519:here"]
        case "translate":
            assert result.content["text"] == "rain"
        case "describe_image" | "transcribe_audio":
            assert result.error is not None and "no blob" in result.text


async def test_speech_that_comes_in_segments_is_one_result_of_the_tool(tmp_path: Path) -> None:
    blobs = BlobStore(tmp_path / "blobs")
    recording = Path(__file__).parent.parent / "services" / "data" / "go-forward.wav"
    cid = await blobs.put(recording.read_bytes(), "audio/wav", "self")
    async with CapabilityBus() as bus:
        bus.register_service(SttService(blobs))
        heard = await ToolExecutor(bus, ["transcribe_audio"]).dispatch(
            ToolCall("tc_1", "transcribe_audio", {"audio_cid": cid})
        )
    blobs.close()

    assert "forward" in heard.content["text"]
