"""Texts that models have written, or could, in place of a clean call: each a file that says what is wrong with it.

corpus_prompted/<format>/<what-is-wrong>.toml

wrong = "one sentence"
reply = '''what the model writes'''
cut = true                # the token limit ended it
error = true              # it broke off in a call
text = '''…'''            # what is shown
thoughts = '''…'''        # what it thought
notice = true             # somebody is told that half a call was dropped
[[calls]]                 # name, arguments as a value or as exactly this text, and how the executor settles it
"""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

from handrail.core.errors import Outcome

HERE = Path(__file__).parent / "corpus_prompted"


class Call(Struct, frozen=True, forbid_unknown_fields=True):
    name: str
    arguments: dict[str, Any] | str
    outcome: Outcome = "ok"


class Written(Struct, frozen=True, forbid_unknown_fields=True):
    """A file of the corpus."""

    wrong: str
    reply: str
    cut: bool = False
    error: bool = False
    text: str = ""
    thoughts: str = ""
    notice: bool = False
    calls: tuple[Call, ...] = ()


class Reply(Struct, frozen=True):
    format: str
    name: str
    written: Written

    @property
    def id(self) -> str:
        return f"{self.format}/{self.name}"


@cache
def replies() -> tuple[Reply, ...]:
    return tuple(
        Reply(path.parent.name, path.stem, msgspec.toml.decode(path.read_bytes(), type=Written))
        for path in sorted(HERE.glob("*/*.toml"))
    )
