"""A model by name: `create_llm("anthropic", model="claude-…")`, `create_llm("ollama:llama3.2")`, `create_llm("local")`.

A service is a row of `models/services.py`. What it needs is imported when it is asked for. Other
packages add services by the entry point `handrail.models`: a function of model,
key, base_url and options that gives a `Model`.
"""

from __future__ import annotations

import importlib
import os
from collections.abc import Callable, Iterable, Mapping
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from msgspec import Struct
from msgspec.structs import replace

from handrail.core.errors import UsageError
from handrail.core.interception import current_interceptor
from handrail.core.ports import Clock, Model, SystemClock
from handrail.core.redact import Secret
from handrail.core.usage_checks import nearest_name_hint
from handrail.models.codec_table import codec_class
from handrail.models.service_addresses import CloudEndpoint
from handrail.models.services import BOTOCORE, SERVICES, ModelService
from handrail.sessions.llm import LLM, CallSettings
from handrail.sessions.model_names import check_create_arguments, model_name_hint

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

    from handrail.models.codec import Codec
    from handrail.models.profiles import Profile
    from handrail.models.rate_limit import ServiceRateLimits
    from handrail.models.token_signing import AskToken
    from handrail.models.transport import Endpoint, Transport

GROUP = "handrail.models"
_SHARED = ("paces", "clock", "chance", "retry")
"""Options that go to the fallbacks of a model too."""
_ATTEMPTS = "retry=RetryPolicy(attempts=…), with RetryPolicy of handrail.models; 1 is no retry"
_MEANT = {
    "retries": _ATTEMPTS,
    "max_retries": _ATTEMPTS,
    "system_prompt": "Session(…, system_prompt=…)",
    "instructions": "Session(…, system_prompt=…)",
}
"""What to write for the names that other libraries use."""
_TREATMENT = ("headers", "paces", "profile", "requests_per_minute", "retry", "stream", "transport")
"""Options that every service has."""

_TELL_TEMPLATES = frozenset({"llamacpp", "ollama"})
"""Services whose servers can be asked for a model's chat template."""
LOCAL = "local"
"""The embedded model, which is no service."""


def create_llm(
    name: str,
    *,
    model: str | None = None,
    key: str | None = None,
    base_url: str | None = None,
    tools: str | None = None,
    fallback: Iterable[str | LLM | Model] = (),
    **options: Any,
) -> LLM:
    """Make a model to talk to. `name` is a service, or a service and a model: `"openai:gpt-5"`.

    `key` is a key, or `env:NAME`; without one, the service's own variable is read, but never for
    another address than the service's own. `tools="prompted:hermes"` has calls written as text, for models that
    cannot do better; without it the profile of the model decides. `tools="prompted"` leaves the format to the name of
    the model and, if that says nothing, to the server's chat template; `"prompted:auto"` asks the server in any case,
    where it can be asked (llama.cpp and Ollama). Settings of requests
    (`temperature`, `max_tokens`, …) and options of the service (`strict`, `cache`, …) may follow. `builtin` is
    a setting too: tools that the service runs itself, offered beside one's own, each as the service documents it.

    `fallback` has the models that are asked, in order, where this one gives no reply. `requests_per_minute` bounds what
    is sent; models that are made with the same `paces` share that, and the pauses that their service asks for.

    Raises:
        UsageError: There is no such service, or it lacks a model, a key or an address.
        MissingExtra: What it needs is not installed.
    """
    check_create_arguments(name, tools, fallback)
    service, _, said = name.partition(":")
    if said and model is not None:
        raise UsageError(f"the model is given twice, as {said!r} and as {model!r}; keep one")
    model = said or model
    settings = {key: options.pop(key) for key in CallSettings.__annotations__ if key in options}
    others = tuple(fallback)
    if others and service in SERVICES and "paces" not in options:
        options["paces"] = _paces(options)
    made = _maker(service)(model=model, key=key, base_url=base_url, tools=tools, **options)
    shared = {name: options[name] for name in _SHARED if name in options}
    first, clock = LLM(made, **settings), options.get("clock", SystemClock())
    return with_fallback(first, [_fallback(each, shared) for each in others], clock)


def with_fallback(first: LLM, others: Iterable[LLM], clock: Clock = SystemClock()) -> LLM:
    """Makes one model of several: if one gives no reply, the next is asked. Each keeps its own settings."""
    others = tuple(others)
    if not others:
        return first
    from handrail.models.failover import FailoverModel, WithSettings

    models = [first.model, *(WithSettings(each.model, each.settings) for each in others)]
    return LLM(FailoverModel(models, clock=clock), **first.settings)


def _fallback(which: str | LLM | Model, shared: Mapping[str, Any]) -> LLM:
    if isinstance(which, str):
        return create_llm(which, **(shared if which.partition(":")[0] in SERVICES else {}))
    return which if isinstance(which, LLM) else LLM(which)


def _paces(options: Mapping[str, Any]) -> ServiceRateLimits:
    from handrail.models.rate_limit import ServiceRateLimits

    return ServiceRateLimits(clock=options["clock"]) if "clock" in options else ServiceRateLimits()


def service_names() -> tuple[str, ...]:
    """Every name that `create_llm` takes, those of other packages included."""
    return tuple(sorted({*SERVICES, LOCAL, *(point.name for point in _points())}))


def _maker(name: str) -> Callable[..., Model]:
    if name in SERVICES:
        return lambda **given: _service_model(name, SERVICES[name], **given)
    if name == LOCAL:
        return _local_model
    for point in _points():
        if point.name == name:
            loaded: Callable[..., Model] = point.load()
            return lambda **given: loaded(**{key: value for key, value in given.items() if value is not None})
    names = service_names()
    raise UsageError(
        f"there is no model service {name!r}{model_name_hint(name, SERVICES, names)}; there are {', '.join(names)}"
    )


def _points() -> tuple[EntryPoint, ...]:
    from importlib.metadata import entry_points  # a service that is known here does without

    return tuple(entry_points(group=GROUP))


def _local_model(*, model: str | None = None, **given: Any) -> Model:
    """Its model is a file, and an embedder finds tools for it."""
    from handrail.models.local.engine_process import EngineBounds
    from handrail.models.local.model import create_local

    options = {"embedder": _embedder(), **given, "weights": given.get("weights") or model}
    options = {key: value for key, value in options.items() if value is not None}
    _check_options(LOCAL, options, {"weights", "embedder", "shown", "answers", *EngineBounds.__struct_fields__})
    return create_local(**options)


def _embedder() -> Callable[[], Any] | None:
    if find_spec("wordllama") is None:
        return None

    def make() -> Any:
        from handrail.sessions.store.embedding import (
            WordLlamaEmbedder,  # it loads 16 MB, and only when there are many tools
        )

        return WordLlamaEmbedder()

    return make


class _ServiceAccess(Struct, frozen=True):
    """How a caller reaches a service, beside what the service is by itself."""

    model: str
    base_url: str | None = None
    key: str | None = None
    headers: Mapping[str, str] | None = None
    token: AskToken | None = None


def _service_model(name: str, service: ModelService, *, model: str | None, tools: str | None, **options: Any) -> Model:
    from handrail.models.codec_model import CodecModel
    from handrail.models.profiles import profile_for
    from handrail.models.retry_policy import RetryPolicy

    model = model or service.model
    if model is None:
        raise UsageError(f"{name!r} needs a model: create_llm({name!r}, model=...) or create_llm('{name}:...')")
    given = {each: options.pop(each) for each in ("base_url", "key", "headers", "token") if each in options}
    access = _ServiceAccess(model, **given)
    place = _place(name, service, access, options)
    transport, endpoint = _reached(name, service, access, place, options)
    whose = name.removesuffix("-responses")
    profile = options.pop("profile", None) or profile_for(service.profile_of or whose, model)
    if tools is not None:
        profile = replace(profile, tools=tools.partition(":")[0])
    pace = (options.pop("paces", None) or _paces(options)).of(endpoint, options.pop("requests_per_minute", None))
    treatment = {each: options.pop(each) for each in ("stream", "retry", "clock", "chance") if each in options}
    if "retry" in treatment and not isinstance(treatment["retry"], RetryPolicy):
        raise UsageError(f"retry={treatment['retry']!r} is not a RetryPolicy; write {_ATTEMPTS}")
    written = (tools or "").partition(":")[2]
    facts = {
        "server": service.profile_of or whose,
        "service": _answers(whose, access.base_url if service.locate is None else place.base_url),
        "profile": profile,
        **service.facts,
    }
    codec = _codec(name, service, facts, written, options)
    asks = _asks_format(name, profile, written)
    return CodecModel(
        codec, transport, endpoint, model, profile=profile, pace=pace, provider=whose, asks_format=asks, **treatment
    )


def _reached(
    name: str, service: ModelService, access: _ServiceAccess, place: CloudEndpoint, options: dict[str, Any]
) -> tuple[Transport, Endpoint]:
    """The way to a service, signed in. What it needs is taken out of the options."""
    from handrail.models.transport import Endpoint

    token = access.token
    if token is not None and access.key is not None:
        raise UsageError("both key= and token= are given; keep the one to sign in with")
    region = None
    if service.transport == BOTOCORE:
        region = options.pop("region", None) or os.environ.get("AWS_REGION") or os.environ.get("AWS_DEFAULT_REGION")
    endpoint = Endpoint(
        place.base_url.replace("{region}", region or "us-east-1"),
        None if token is not None else _key(name, service, access.key, own_address=place.is_own),
        service.key_header,
        service.key_prefix,
        access.headers or {},
        place.query,
    )
    transport = options.pop("transport", None) or _transport(service, region, options.get("clock", SystemClock()))
    if token is not None or (service.google_tokens and endpoint.key is None and place.is_own):
        transport = _signed(transport, token)
    return transport, endpoint


def _asks_format(name: str, profile: Profile, written: str) -> bool:
    """Whether the server is asked how its model writes calls: nobody said it, and the model's name does not either."""
    from handrail.models.profiles import Profile

    unknown = written == "auto" or (not written and profile.prompted_format == Profile().prompted_format)
    return profile.tools == "prompted" and unknown and name in _TELL_TEMPLATES


def _place(name: str, service: ModelService, access: _ServiceAccess, options: dict[str, Any]) -> CloudEndpoint:
    if service.locate is not None:
        return service.locate(access.model, access.base_url, options, os.environ)
    address = access.base_url or service.base_url
    if address is None:
        raise UsageError(f"{name!r} needs the address of a server: base_url='http://host:port/v1'")
    return CloudEndpoint(address, is_own=access.base_url is None)


def _signed(transport: Transport, token: AskToken | None) -> Transport:
    from handrail.models.token_signing import CallableTokenSource, GoogleTokenSource, SignedTransport

    return SignedTransport(transport, GoogleTokenSource() if token is None else CallableTokenSource(token))


def _transport(service: ModelService, region: str | None, clock: Clock) -> Transport:
    if service.transport is None:
        from handrail.models.transport import HttpTransport

        return HttpTransport(trust_env=True, clock=clock)
    module, kind = service.transport
    made: Transport = getattr(importlib.import_module(module), kind)(region=region)
    return made


def _key(name: str, service: ModelService, given: str | None, *, own_address: bool) -> Secret | None:
    """The environment's key goes to the service that it belongs to, and nowhere else."""
    from handrail.models.api_keys import key_for

    if given is None and not own_address:
        return None
    interceptor = current_interceptor()
    if interceptor is not None and not interceptor.asks_services:
        return None
    return key_for(service.key_of or name, given, required=service.needs_key)


def _answers(name: str, base_url: str | None) -> str:
    """The identity of an answering server: what one server signs, another under the same name does not understand."""
    return name if base_url is None else f"{name} at {urlsplit(base_url).netloc}"


def _codec(
    name: str, service: ModelService, facts: Mapping[str, Any], written: str, options: Mapping[str, Any]
) -> Codec:
    kind = codec_class(service.wire)
    known = set(kind.__struct_fields__)
    _check_options(name, options, {*known, *_TREATMENT, *service.located_by, "token"})
    profile: Profile = facts["profile"]
    codec: Codec = kind(**{key: value for key, value in facts.items() if key in known} | dict(options))
    if profile.tools != "prompted":
        return codec
    from handrail.models.prompted.codec import PromptedCodec

    format = profile.prompted_format if written in ("", "auto") else written
    return PromptedCodec(codec, format, keep_tokens=name == "vllm")


def _check_options(name: str, options: Mapping[str, Any], known: set[str]) -> None:
    unknown = sorted(options.keys() - known)
    if "api_key" in unknown:
        raise UsageError("the key is given as key=, best as key='env:NAME'")
    if unknown:
        there = {*known, *CallSettings.__annotations__}
        raise UsageError(f"{name!r} has no option {unknown[0]!r}{nearest_name_hint(unknown[0], there, _MEANT)}")
