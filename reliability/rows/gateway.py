"""The official client of OpenAI, which repeats its request with its Idempotency-Key, and a node that answers it."""

from __future__ import annotations

import asyncio
from pathlib import Path

import uvicorn
from msgspec import Struct
from openai import APIConnectionError, APIStatusError, OpenAI
from starlette.applications import Starlette
from starlette.requests import Request

from handrail import Executor, Policy, Principal
from handrail.journal import SqliteJournal
from handrail.node import Caller, Gateway, GatewayModel
from reliability.moments import lines
from reliability.rows.our_loop import PayingModel, paying_tool
from reliability.stage import Stage, tell


class GatewayRow(Struct, frozen=True):
    name: str = "OpenAI gateway, with an Idempotency-Key"
    killed: str = (
        "client and node: at each message between them, either end; the node before and after each write to the "
        "journal and the payment, and in each reply of the model"
    )
    preload: tuple[str, ...] = ("reliability.rows.gateway", "openai.resources.chat.completions")

    def play(self, stage: Stage) -> None:
        """The node outlives its client, and is started again if it is dead."""
        port = stage.tcp_wire("client", "node", stage.serve("node", serve_node, stage.folder))
        if not stage.start("client", run_client, stage.folder, port).wait():
            raise TimeoutError("the client did not end")


def run_client(folder: Path, port: int) -> None:
    """The customer. A request that was answered is over: the next one is a new wish, with a key of its own."""
    key = {"Idempotency-Key": f"order-17-{len(lines(folder / 'told.jsonl'))}"}
    with OpenAI(base_url=f"http://127.0.0.1:{port}/v1", api_key="none", max_retries=0, timeout=30) as client:
        try:
            reply = client.chat.completions.create(
                model="house", messages=[{"role": "user", "content": "Pay Ada 5 euros."}], extra_headers=key
            )
        except APIStatusError as refused:
            tell(folder, str(refused))
        except APIConnectionError:
            pass  # the node is gone: the customer was told nothing, and asks again
        else:
            tell(folder, reply.choices[0].message.content or "")


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


GATEWAY = GatewayRow()
