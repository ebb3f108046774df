"""The gateways of a whole node: its embedder, its MCP servers, and what its description lists."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import anthropic
import openai
import pytest
from anthropic import AsyncAnthropic
from openai import AsyncOpenAI

from handrail.app.network_node import open_node
from handrail.app.person import Person
from handrail.config.approvals import Approvals
from handrail.config.load import load_config
from handrail.mcp.values import Endpoint
from tests.app.test_network_node import served
from tests.mcp.client.connections import web_of_sdk

HELLO: Any = [{"role": "user", "content": "Hello"}]
CONFIG = """
default_model = "scripted"
ensembles = []
[models.scripted]
provider = "scripted"
model = "replies.toml"
[mcp.sdk]
url = "{url}"
prefix = "sdk_"
"""
REPLIES = """
[[reply]]
text = "Hello."
"""


async def test_a_node_serves_embeddings_counts_tokens_and_takes_the_mcp_servers_that_it_uses(tmp_path: Path) -> None:
    async def consent(server: str, endpoint: Endpoint, why: str) -> bool:
        return True

    async with web_of_sdk() as (endpoint, _):
        (tmp_path / "replies.toml").write_text(REPLIES)
        (tmp_path / "handrail.toml").write_text(CONFIG.format(url=endpoint.url))
        person = Person(by="ada", approvals=Approvals(tmp_path / "state"), tell=lambda line: None, consent=consent)
        config = load_config(tmp_path / "handrail.toml")
        async with open_node(config, tmp_path / ".handrail" / "journal.db", person=person) as node, served(node) as url:
            key = node.session_token()
            of_openai = AsyncOpenAI(base_url=f"{url}/v1", api_key=key, max_retries=0)
            of_anthropic = AsyncAnthropic(base_url=url, api_key=key, max_retries=0)
            async with of_openai, of_anthropic:
                made = await of_openai.embeddings.create(model="wordllama", input=["rain", "boots"], dimensions=64)
                count = await of_anthropic.messages.count_tokens(model="scripted", messages=HELLO)
                tool: Any = {"type": "mcp", "server_label": "sdk", "server_url": endpoint.url}
                known: Any = [{**tool, "allowed_tools": ["echo"]}]
                strange: Any = [{**tool, "allowed_tools": ["fly"]}]
                answer = await of_openai.chat.completions.create(model="scripted", messages=HELLO, tools=known)
                with pytest.raises(openai.BadRequestError, match="no tool 'fly'"):
                    await of_openai.chat.completions.create(model="scripted", messages=HELLO, tools=strange)
                server: Any = {"type": "url", "name": "other", "url": "https://mcp.example"}
                with pytest.raises(anthropic.BadRequestError, match="does not use an MCP server"):
                    await of_anthropic.beta.messages.create(
                        model="scripted", max_tokens=9, messages=HELLO, mcp_servers=[server]
                    )
                with pytest.raises(openai.BadRequestError, match="continues no text"):
                    await of_openai.completions.create(model="scripted", prompt="Once")
                paths = (await of_openai.get(f"{url}/openapi.json", cast_to=object))["paths"]  # type: ignore[index]

    assert [len(each.embedding) for each in made.data] == [64, 64]
    assert count.input_tokens > 1
    assert answer.choices[0].message.content == "Hello."
    assert {"/v1/completions", "/v1/embeddings", "/v1/messages/count_tokens"} <= set(paths)
