"""The same tool suite over every wire: whatever lies between, the model's calls and their results are the same.

Each scene is first played by a scripted model, without a wire. Then a server on
loopback plays it in a service's own wire, and the client is `create_llm` with a
runner. The server refuses a request that does not say what the scripted model was asked.
"""

from __future__ import annotations

import pytest

from handrail import Conversation
from handrail.cli.probe.cases import ProbeSuite
from handrail.cli.probe.judge import probe_model
from handrail.core.events import CallRequested, ModelEvent, TextDelta
from handrail.core.messages import ResultMessage
from handrail.models.bedrock.transport import BedrockTransport
from tests.cases import case
from tests.wires.scripted_service import ScenePlay, ScriptedService
from tests.wires.wire_client import ReferenceRuns, connected, every_wire, played, told
from tests.wires.wire_dialogue import INPUT_TOKENS, OUTPUT_TOKENS, ScriptedReply, WireCall, WireCase
from tests.wires.wire_scenes import OWN, PROBED, SCENES, SUITE, WireScene
from tests.wires.wire_table import NATIVE

pytestmark = pytest.mark.asyncio(loop_scope="module")


def played_over(wire: WireCase, stream: bool) -> tuple[WireScene, ...]:
    """All scenes; our own are enough where the same code has read all of them already."""
    known = wire.moved or (not stream and (wire.variant or wire.prompted))
    return tuple(scene for scene in (OWN if known else SCENES) if wire.name not in scene.not_over)


@pytest.mark.requirement("hearthnet.backends.native")
@every_wire
async def test_a_scene_is_the_same_over_a_wire_as_without(
    service: ScriptedService, converse: BedrockTransport, references: ReferenceRuns, wire: WireCase, stream: bool
) -> None:
    async with connected(service, wire, stream, converse) as llm:
        for scene in played_over(wire, stream):
            with case(scene.id):
                expected, requests = await references.of(scene)
                service.play = ScenePlay(wire, stream, requests, scene.replies)
                _compare(wire, scene, expected, await played(llm.model, scene))


def _compare(wire: WireCase, scene: WireScene, expected: Conversation, conversation: Conversation) -> None:
    assert told(conversation, exact=not wire.prompted) == told(expected, exact=not wire.prompted)
    before = len(scene.conversation)
    results = [each.result for each in conversation.messages[before:] if isinstance(each, ResultMessage)]
    assert tuple(result.outcome for result in results) == scene.outcomes
    turns = len(scene.replies)
    counted = conversation.usage
    assert (counted.input_tokens, counted.output_tokens) == (turns * INPUT_TOKENS, turns * OUTPUT_TOKENS)


@pytest.mark.parametrize("wire", [wire for wire in NATIVE if not wire.variant], ids=lambda wire: wire.name)
async def test_a_model_that_is_always_right_has_the_full_score_in_the_probe(
    service: ScriptedService, converse: BedrockTransport, references: ReferenceRuns, wire: WireCase
) -> None:
    async with connected(service, wire, True, converse) as llm:
        for case, scene in zip(SUITE.case, PROBED, strict=True):
            _, requests = await references.of(scene)
            service.play = ScenePlay(wire, True, requests, scene.replies)
            score = await probe_model(wire.name, llm, ProbeSuite(SUITE.tools, (case,)))
            assert (score.right, score.problem) == (1, ""), score


@every_wire
async def test_what_the_server_writes_is_what_the_sdk_of_the_service_reads(wire: WireCase, stream: bool) -> None:
    for scene in SCENES:
        for reply in scene.replies:
            said = ScriptedReply(*_spoken(reply))
            for event in wire.write(said, stream):
                wire.judge(event, stream)


def _spoken(reply: list[ModelEvent]) -> tuple[str, tuple[WireCall, ...]]:
    words = "".join(event.text for event in reply if isinstance(event, TextDelta))
    calls = [event.call for event in reply if isinstance(event, CallRequested)]
    return words, tuple(WireCall(f"id_{number}", call.name, call.arguments) for number, call in enumerate(calls))
