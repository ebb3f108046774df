"""The official clients of OpenAI and Anthropic, which repeat a request with its Idempotency-Key, and a node."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

import anthropic
import openai
import uvicorn
from msgspec import Struct
from starlette.applications import Starlette
from starlette.requests import Request

from handrail import Executor, Policy, Principal
from handrail.journal import SqliteJournal
from handrail.node import Caller, Gateway, GatewayModel
from reliability.moments import lines
from reliability.rows.our_loop import PayingModel, paying_tool
from reliability.stage import Stage, tell

WISH = "Pay Ada 5 euros."


class GatewayRow(Struct, frozen=True):
    name: str
    client: Callable[[Path, int, str], None]
    """The customer, who knows the folder, the port of the node, and the key of the request."""
    preload: tuple[str, ...]
    killed: str = (
        "client and node: at each message between them, either end; the node before and after each write to the "
        "journal and the payment, and in each reply of the model"
    )

    def play(self, stage: Stage) -> None:
        """The node outlives its client, and is started again if it is dead."""
        port = stage.tcp_wire("client", "node", stage.serve("node", serve_node, stage.folder))
        # A request that was answered is over: the next one is a new wish, with a key of its own.
        key = f"order-17-{len(lines(stage.folder / 'told.jsonl'))}"
        if not stage.start("client", self.client, stage.folder, port, key).wait():
            raise TimeoutError("the client did not end")


def ask_openai(folder: Path, port: int, key: str) -> None:
    with openai.OpenAI(base_url=f"http://127.0.0.1:{port}/v1", api_key="none", max_retries=0, timeout=30) as client:
        try:
            reply = client.chat.completions.create(
                model="house", messages=[{"role": "user", "content": WISH}], extra_headers={"Idempotency-Key": key}
            )
        except openai.APIStatusError as refused:
            tell(folder, str(refused))
        except openai.APIConnectionError:
            pass  # the node is gone: the customer was told nothing, and asks again
        else:
            tell(folder, reply.choices[0].message.content or "")


def ask_anthropic(folder: Path, port: int, key: str) -> None:
    with anthropic.Anthropic(base_url=f"http://127.0.0.1:{port}", api_key="none", max_retries=0, timeout=30) as client:
        try:
            reply = client.messages.create(
                model="house",
                max_tokens=100,
                messages=[{"role": "user", "content": WISH}],
                extra_headers={"Idempotency-Key": key},
            )
        except anthropic.APIStatusError as refused:
            tell(folder, str(refused))
        except anthropic.APIConnectionError:
            pass  # as above
        else:
            tell(folder, "".join(block.text for block in reply.content if block.type == "text"))


def serve_node(folder: Path, port: int) -> None:
    asyncio.run(serve(folder, port))


async def serve(folder: Path, port: int) -> None:
    async def anybody(request: Request) -> tuple[Caller, None]:
        return Caller(principal=Principal("ada"), trust="member"), None

    policy = Policy(confirm_side_effects=False)
    async with (
        await SqliteJournal.open(folder / "journal.db") as journal,
        Executor([paying_tool(folder)], journal=journal, policy=policy) as executor,
    ):
        gateway = Gateway(
            models=lambda name: GatewayModel(name="house", model=PayingModel()),
            names=lambda: ["house"],
            executor=executor,
            caller_of=anybody,
        )
        app = Starlette(routes=gateway.routes())
        await uvicorn.Server(uvicorn.Config(app, host="127.0.0.1", port=port, log_level="error")).serve()


MODULE = "reliability.rows.gateway"
GATEWAY = GatewayRow(
    "OpenAI gateway, with an Idempotency-Key", ask_openai, (MODULE, "openai.resources.chat.completions")
)
ANTHROPIC = GatewayRow(
    "Anthropic gateway, with an Idempotency-Key", ask_anthropic, (MODULE, "anthropic.resources.messages")
)
