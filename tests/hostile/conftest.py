"""One server, one transport and one client of botocore's for all streams: they take longer to make than to use."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from handrail.models.bedrock.transport import BedrockTransport
from handrail.models.codec_model import CodecModel
from handrail.models.retry_policy import RetryPolicy
from handrail.models.transport import Endpoint, HttpTransport
from tests.hostile.reply_corpus import CorpusStream
from tests.hostile.reply_outcomes import MODELS, codec_of
from tests.models.raw_reply_server import RawReplyServer, serving

NOBODY = {
    "AWS_ACCESS_KEY_ID": "nobody",
    "AWS_SECRET_ACCESS_KEY": "nothing",
    "AWS_DEFAULT_REGION": "eu-west-1",
    "AWS_CONFIG_FILE": "/dev/null",
    "AWS_SHARED_CREDENTIALS_FILE": "/dev/null",
    "AWS_EC2_METADATA_DISABLED": "true",
}


class Line:
    """A service that says what it is told to, and models that ask it."""

    def __init__(self, server: RawReplyServer, http: HttpTransport, converse: BedrockTransport) -> None:
        self.server = server
        self._http = http
        self._converse = converse

    def model(self, stream: CorpusStream) -> CodecModel:
        transport = self._converse if stream.wire == "bedrock" else self._http
        endpoint = Endpoint(self.server.url)
        return CodecModel(codec_of(stream), transport, endpoint, MODELS[stream.wire], retry=RetryPolicy(attempts=1))


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def line() -> AsyncIterator[Line]:
    with pytest.MonkeyPatch.context() as environment:
        for name, value in NOBODY.items():
            environment.setenv(name, value)
        http, converse = HttpTransport(), BedrockTransport(silence=10)
        async with serving() as server:
            yield Line(server, http, converse)
            await http.aclose()
            await converse.aclose()
