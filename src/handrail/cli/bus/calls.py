"""`handrail bus list` and `call`: what there is to call, and one call, as JSON or frame by frame."""

from __future__ import annotations

import asyncio
import base64
import mimetypes
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any, TextIO

import click

from handrail.cli import text
from handrail.cli.bus.connection import BusConnectionOptions, with_bus_connection
from handrail.cli.lazy_groups import cli_command
from handrail.cli.output.view import answer_json, columns, is_terminal, table, tell, with_output_file
from handrail.core.errors import BusError, UsageError
from handrail.core.jsontext import JSONTextError, parse_object
from handrail.node.bus.interfaces import CapabilityOffer
from handrail.node.bus.stream_frame import DONE, ERROR
from handrail.node.bus.versions import split_name

_COLUMNS = columns("capability", "effects", "trust", "node", "description", cut="description")


@cli_command("list", "handrail bus list", "handrail bus list rag.query --json | jq .request_schema")
@click.argument("name", required=False)
@with_bus_connection
@with_output_file
def list_capabilities(reach: BusConnectionOptions, name: str | None) -> None:
    """List all capabilities, or those of one NAME. --json includes their schemas and schema hashes."""
    offers = asyncio.run(_offers(reach, name))
    if reach.setup.view.wrote_json(*({"node_id": offer.node_id, **offer.descriptor.to_dict()} for offer in offers)):
        return
    if not offers:
        tell(f"There is {'nothing' if name is None else f'no {name!r}'} to call; only what the token allows is listed")
        return
    nodes = reach.setup.view.ids(offer.node_id for offer in offers)
    if len(nodes) == 1 and is_terminal():
        nodes = dict.fromkeys(nodes, "-")  # the same in every row, and long
    table(_COLUMNS, [_row(offer, nodes[offer.node_id]) for offer in offers], {})


async def _offers(reach: BusConnectionOptions, name: str | None) -> list[CapabilityOffer]:
    async with reach.bus() as bus:
        found = await bus.discover(name)
    return sorted(found, key=lambda offer: (offer.descriptor.full_name, offer.node_id))


def _row(offer: CapabilityOffer, node: str) -> tuple[str, ...]:
    each = offer.descriptor
    effects = "reads" if not each.side_effects else "writes, idempotent" if each.idempotent else "writes"
    return (
        each.full_name,
        effects,
        each.trust_required,
        text.printable(node),
        text.printable(each.description) or "-",
    )


@cli_command(
    "call",
    "handrail bus call peers.list",
    'handrail bus call market.list@1.0 \'{"input": {"limit": 5}}\'',
    'handrail bus call llm.chat@2.0 --stream \'{"input": {"messages": [{"role": "user", "content": "Hi"}]}}\'',
    'handrail bus call rag.ingest \'{"params": {"corpus": "docs"}}\' --blob doc_cid=manual.pdf',
)
@click.argument("capability")
@click.argument("body", required=False)
@click.option("--body", "file", type=click.File(), metavar="FILE", help="Read the body from this file; - is stdin.")
@click.option(
    "--blob",
    "blobs",
    multiple=True,
    metavar="FIELD=FILE",
    help="Upload the file first, with blob.put, and name it in this field of the input; can be given several times.",
)
@click.option("--stream", is_flag=True, help="Print each frame as it arrives, one line of JSON each.")
@click.option("--timeout", type=click.FloatRange(0, min_open=True), metavar="SECONDS", help="How long to wait.")
@with_bus_connection
@with_output_file
def call(
    reach: BusConnectionOptions,
    capability: str,
    body: str | None,
    file: TextIO | None,
    blobs: tuple[str, ...],
    stream: bool,
    timeout: float | None,
) -> None:
    """Call a CAPABILITY, such as rag.query@1.0. The default version is 1.0.

    BODY is JSON, {"params": {…}, "input": {…}}; a BODY with neither key is used as the input. `handrail bus list NAME
    --json` shows what a capability takes. Documents, pictures and sound are passed as blobs, which --blob uploads.
    After an error the exit code is 1, and the message says whether to try again.
    """
    name, version = split_name(capability)
    given = _body(body if file is None else file.read())
    asyncio.run(_call(reach, name, version, given, [_blob(each) for each in blobs], stream, timeout))


def _body(written: str | None) -> dict[str, Any]:
    if written is None:
        return {}
    try:
        body = parse_object(written)
    except JSONTextError as error:
        raise UsageError(f"the body is not a JSON object: {error}") from error
    return body if set(body) <= {"params", "input"} else {"input": body}


Blob = tuple[str, dict[str, str]]
"""A field, and the input of `blob.put` for what it shall name."""


def _blob(written: str) -> Blob:
    field, _, path = written.partition("=")
    if not field or not path:
        raise UsageError(f"{written!r} is not of the form FIELD=FILE; write --blob doc_cid=manual.pdf")
    try:
        data = Path(path).read_bytes()
    except OSError as error:
        raise UsageError(f"the file {path!r} cannot be read: {error.strerror}") from error
    media_type = mimetypes.guess_type(path, strict=False)[0] or "application/octet-stream"
    return field, {"data": base64.urlsafe_b64encode(data).decode(), "media_type": media_type}


async def _call(
    reach: BusConnectionOptions,
    name: str,
    version: tuple[int, int],
    body: dict[str, Any],
    blobs: Iterable[Blob],
    stream: bool,
    timeout: float | None,
) -> None:
    async with reach.bus() as bus:
        for field, blob in blobs:
            put = await bus.call("blob.put", (1, 0), {"input": blob})
            body = {**body, "input": {**body.get("input", {}), field: put["output"]["cid"]}}
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
