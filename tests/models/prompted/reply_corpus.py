"""What models write in the formats that they were trained on: a file for each, which names its sources.

corpus/<format>.toml

format = "the name of a format"
sources = ["where these shapes were looked up"]
[[reply]]
what = "what it is an example of"
text = '''what the model writes'''
calls = [{name = "…", arguments = {…}}]
said = "what is left as text"      # apart from space around it
error = true                       # it breaks off in a call
"""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

from handrail.core.model_request import ToolOffer

HERE = Path(__file__).parent / "reply_corpus"


def _offer(name: str, **properties: str) -> ToolOffer:
    return ToolOffer(
        name, "", {"type": "object", "properties": {key: {"type": kind} for key, kind in properties.items()}}
    )


OFFERED = (
    _offer("get_weather", city="string", days="integer"),
    _offer("get_time", timezone="string"),
    _offer("get_current_date"),
)


class Call(Struct, frozen=True, forbid_unknown_fields=True):
    name: str
    arguments: dict[str, Any]


class Reply(Struct, frozen=True, forbid_unknown_fields=True):
    what: str
    text: str
    calls: tuple[Call, ...] = ()
    said: str = ""
    error: bool = False
    format: str = ""


class _File(Struct, frozen=True, forbid_unknown_fields=True):
    format: str
    sources: tuple[str, ...]
    reply: tuple[Reply, ...]


@cache
def replies() -> tuple[Reply, ...]:
    files = [msgspec.toml.decode(path.read_bytes(), type=_File) for path in sorted(HERE.glob("*.toml"))]
    return tuple(msgspec.structs.replace(reply, format=file.format) for file in files for reply in file.reply)


def whole() -> tuple[Reply, ...]:
    """Those with calls, none of which breaks off."""
    return tuple(reply for reply in replies() if reply.calls)
