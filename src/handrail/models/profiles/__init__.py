"""Facts about services and model families, as data: `profile_for("vllm", "nvidia/Nemotron-Nano-9B-v2")`.

One TOML file for each. `[facts]` hold for every model of that service, `[[model]]`
for those of its models whose name matches; `[[family]]` for a model wherever it is
served. Code asks a profile and never looks at a name. A file says only what the
defaults of `Profile` do not, and a key that no code knows is refused.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator
from functools import cache
from importlib.resources import files
from typing import Any, Literal

import msgspec
from msgspec import Struct

from handrail.core.errors import ConfigError
from handrail.core.messages import Usage

_FAMILIES = "families"
"""The file of families that have none of their own; it is about no service."""
ChoiceForm = Literal["auto", "none", "required", "named"]


class Prices(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """US dollars for a million tokens."""

    input: float
    output: float
    cached: float | None = None
    """The price of input read from the cache; by default that of other input."""
    written: float | None = None
    """The price of input written to the cache; by default that of other input."""

    def cost(self, usage: Usage) -> float:
        cached = self.input if self.cached is None else self.cached
        written = self.input if self.written is None else self.written
        fresh = max(usage.input_tokens - usage.cached_tokens - usage.cache_written_tokens, 0)
        read = fresh * self.input + usage.cached_tokens * cached + usage.cache_written_tokens * written
        return (read + usage.output_tokens * self.output) / 1_000_000


class CallIds(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which ids of calls a service takes back; one that does not match is replaced by a digest of that length."""

    pattern: str
    length: int


class Profile(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The abilities of one model of one service. The defaults are those of a plain compatible server."""

    tools: Literal["native", "prompted", "none"] = "native"
    """`native`: fields of the wire. `prompted`: only as text. `none`: neither."""
    prompted_format: str = "json"
    """The text format in which it writes calls when they are prompted."""
    tool_choice: tuple[ChoiceForm, ...] = ("auto", "none", "required", "named")
    parallel: Literal["on", "off", "fixed"] = "on"
    """Whether it makes several calls at once unless told otherwise; `fixed` means that it cannot be told."""
    strict: Literal["never", "subset", "always"] = "never"
    """Whether a call can be held to its schema: never, when the schema fits the service's subset, or always."""
    schema: Literal["openai", "anthropic", "gemini", "ollama", "bedrock", "full"] = "full"
    """The keywords that it takes in a tool's schema."""
    tool_search: bool = False
    """Whether it finds tools that are deferred, where its wire can say so."""
    programs: str = ""
    """The tool of the service that runs programs which call tools; empty: it runs none that its wire can say."""
    chat_builtin: bool = True
    """Whether its Chat Completions take tools that the service runs itself."""
    response_format: Literal["json_schema", "json_object", "none"] = "json_schema"
    schema_beside_tools: bool = False
    """Whether a reply can be held to a schema while tools are offered, and the model still call them."""
    max_tokens_field: Literal["max_tokens", "max_completion_tokens"] = "max_tokens"
    seed_field: str = "seed"
    """Empty: it takes none."""
    sampling: bool = True
    """Whether it takes a temperature and top_p."""
    stop: bool = True
    """Whether it takes stop sequences."""
    stream_usage: bool = True
    """Whether it must be asked to count tokens in a stream; if not, it does so by itself and refuses the question."""
    images: bool = True
    """Whether user messages may hold images."""
    files: bool = False
    """PDF files in what a user says."""
    user_after_result: bool = True
    """Whether a user may speak right after a result, so that an image of the result can be shown there."""
    call_ids: CallIds | None = None
    reasoning_fields: tuple[str, ...] = ("reasoning_content", "reasoning")
    """The fields of a reply that hold reasoning, in order."""
    reasoning_echo: Literal["never", "calls", "always", "required"] = "never"
    """Which replies it wants back with their thoughts: none, those with calls, all. With `required` it refuses a reply
    with calls that lacks the field, even if there was no thought."""
    chunks: bool = False
    """Whether it takes thoughts back as chunks of the content, and continues a reply that is begun (`prefix`)."""
    signed_calls: bool = False
    """Whether it refuses a history in which a call lacks its signature."""
    media_in_results: bool = True
    """Whether a result may hold images and files; if not, they follow it as the user's."""
    encrypted_reasoning: bool = False
    """Whether it gives its thoughts sealed, to be sent back with the next request."""
    writes_code: bool = True
    """Whether it can write a program. Where it cannot, a fixed one is used instead (`rlm/scripted_root.py`)."""
    completions: bool = False
    """Whether it also continues a text that is no conversation, in the wire of its service for that."""
    prices: Prices | None = None

    def cost(self, usage: Usage) -> float | None:
        return None if self.prices is None else self.prices.cost(usage)


class _Rule(Struct, frozen=True):
    match: str
    """Matches the whole name, whatever the case."""
    facts: dict[str, Any]

    def fits(self, model: str) -> bool:
        return re.fullmatch(self.match, model, re.IGNORECASE) is not None

    @property
    def specific(self) -> int:
        """The number of literal characters in the pattern; the most specific rule wins."""
        return len(re.findall(r"\\.|[A-Za-z0-9]|[-_:/]", self.match))


class _File(Struct, frozen=True):
    facts: dict[str, Any]
    models: tuple[_Rule, ...]
    families: tuple[_Rule, ...]


def known_services() -> tuple[str, ...]:
    """Every service of which something is known."""
    return tuple(sorted(_files().keys() - {_FAMILIES}))


@cache
def profile_for(provider: str, model: str) -> Profile:
    """Return the profile of a model of a service; for an unknown model, that of a plain compatible server.

    What a family's file says outdoes the service, and what the service says about this model outdoes both; between
    two rules of one kind the one that fixes more of the name wins.
    """
    known = _files()
    own = known.get(provider, _File({}, (), ()))
    families = [rule for file in known.values() for rule in file.families]
    facts = dict(own.facts)
    for rule in (*_fitting(families, model), *_fitting(own.models, model)):
        facts |= rule.facts
    return msgspec.convert(facts, Profile)


def read_profile_file(text: str, file: str) -> _File:
    """Read a file of facts.

    Raises:
        ConfigError: It is not TOML, has a key that no code knows, or a value of the wrong type.
    """
    try:
        data = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(str(error), file=file) from error
    unknown = sorted(data.keys() - {"facts", "model", "family"})
    if unknown:
        raise ConfigError("not a table of a profile; there are facts, model and family", file=file, key=unknown[0])
    facts = _checked(data.get("facts", {}), file, "facts")
    return _File(facts, tuple(_rules(data, "model", file)), tuple(_rules(data, "family", file)))


def _rules(data: dict[str, Any], key: str, file: str) -> Iterator[_Rule]:
    for number, table in enumerate(data.get(key, ()), 1):
        place = f"{key} {number}"
        match = table.get("match")
        try:
            re.compile(match)
        except (TypeError, re.error) as error:
            raise ConfigError(f"match must be a pattern of names: {error}", file=file, key=place) from error
        yield _Rule(match, _checked({name: value for name, value in table.items() if name != "match"}, file, place))


def _checked(facts: dict[str, Any], file: str, place: str) -> dict[str, Any]:
    try:
        msgspec.convert(facts, Profile)
    except msgspec.ValidationError as error:
        raise ConfigError(str(error), file=file, key=place) from error
    return facts


def _fitting(rules: tuple[_Rule, ...] | list[_Rule], model: str) -> list[_Rule]:
    return sorted((rule for rule in rules if rule.fits(model)), key=lambda rule: rule.specific)


@cache
def _files() -> dict[str, _File]:
    found = (entry for entry in files(__name__).iterdir() if entry.name.endswith(".toml"))
    return {
        entry.name.removesuffix(".toml"): read_profile_file(entry.read_text("utf-8"), entry.name) for entry in found
    }
