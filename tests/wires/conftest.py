"""One server for all scenes, and one client of botocore's, which takes long to make."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from handrail.models.bedrock.transport import BedrockTransport
from tests.wires.scripted_service import ScriptedService, serving
from tests.wires.wire_client import ReferenceRuns


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def service() -> AsyncIterator[ScriptedService]:
    async with serving() as service:
        yield service


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def converse() -> AsyncIterator[BedrockTransport]:
    transport = BedrockTransport()
    with pytest.MonkeyPatch.context() as environment:
        environment.setenv("AWS_ACCESS_KEY_ID", "nobody")
        environment.setenv("AWS_SECRET_ACCESS_KEY", "nothing")
        environment.setenv("AWS_DEFAULT_REGION", "us-east-1")
        yield transport
    await transport.aclose()


@pytest.fixture(scope="module")
def references() -> ReferenceRuns:
    return ReferenceRuns()
