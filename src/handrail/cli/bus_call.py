"""`handrail bus call`: one call, as JSON, or frame by frame as they come."""

from __future__ import annotations

import asyncio
import sys
from typing import Any, TextIO

import click

from handrail.bus.codes import WIRE
from handrail.bus.frames import DONE, ERROR
from handrail.bus.versions import split_name
from handrail.cli.bus_reach import Reach, reaching
from handrail.cli.groups import examples
from handrail.cli.view import answer_json
from handrail.core.errors import BusError, UsageError
from handrail.core.jsontext import JSONTextError, parse_object


@click.command(
    "call",
    epilog=examples(
        "handrail bus call peers.list",
        'handrail bus call market.list@1.0 \'{"input": {"limit": 5}}\'',
        'handrail bus call llm.chat@2.0 --stream \'{"input": {"messages": [{"role": "user", "content": "Hi"}]}}\'',
        "handrail bus call blob.put --body body.json",
    ),
)
@click.argument("capability")
@click.argument("body", required=False)
@click.option(
    "--body", "file", type=click.File(), metavar="FILE", help="Read the body from there; - is standard input."
)
@click.option("--stream", is_flag=True, help="Print each frame as it comes, one line of JSON each.")
@click.option("--timeout", type=click.FloatRange(0, min_open=True), metavar="SECONDS", help="How long to wait.")
@reaching
def command(
    reach: Reach, capability: str, body: str | None, file: TextIO | None, stream: bool, timeout: float | None
) -> None:
    """Call a CAPABILITY, as rag.query@1.0; without a version, 1.0.

    BODY is JSON, {"params": {…}, "input": {…}}; what has neither is taken as the input. `handrail bus list NAME --json`
    shows what a capability takes. An error ends with exit code 1, and says whether to ask again.
    """
    name, version = split_name(capability)
    try:
        asyncio.run(_call(reach, name, version, _body(body if file is None else file.read()), stream, timeout))
    except BusError as error:
        raise UsageError(f"{error}{_advice(error)}") from error


_ADVICE = {
    "later": "; ask again later",
    "if_idempotent": "",
    "new_token": "; ask again with a new token",
    "no": "",
}


def _advice(error: BusError) -> str:
    """Whether to ask again."""
    if error.outcome == "in_doubt":
        return "; it may have taken effect, so find that out before you ask again"
    if error.retry_after_ms is not None:
        return f"; ask again in {error.retry_after_ms / 1000:g} s"
    return _ADVICE[WIRE[error.code].again] if error.code in WIRE else ""


def _body(written: str | None) -> dict[str, Any]:
    if written is None:
        return {}
    try:
        body = parse_object(written)
    except JSONTextError as error:
        raise UsageError(f"the body is no JSON object: {error}") from error
    return body if set(body) <= {"params", "input"} else {"input": body}


async def _call(
    reach: Reach, name: str, version: tuple[int, int], body: dict[str, Any], stream: bool, timeout: float | None
) -> None:
    async with reach.bus() as bus:
        if not stream:
            answer_json(await bus.call(name, version, body, timeout_seconds=timeout))
            return
        async with bus.stream(name, version, body, timeout_seconds=timeout) as frames:
            async for frame in frames:
                if frame.event == ERROR:
                    raise BusError.from_dict(frame.data)
                answer_json({"event": frame.event, "data": frame.data, "seq": frame.seq})
                sys.stdout.flush()
                if frame.event == DONE:
                    return
