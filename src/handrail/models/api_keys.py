"""Keys of services, from the environment. In files they are only ever named, never written.

A key is a `Secret`: no `repr`, record or error shows it. Its value is masked wherever it turns up.
"""

from __future__ import annotations

import os
from collections.abc import Mapping

from handrail.core.errors import UsageError
from handrail.core.redact import Secret, remember_secret

VARIABLES: Mapping[str, tuple[str, ...]] = {
    "azure": ("AZURE_OPENAI_API_KEY",),
    "bedrock": ("AWS_BEARER_TOKEN_BEDROCK",),
    "cohere": ("COHERE_API_KEY", "CO_API_KEY"),
    "gemini": ("GEMINI_API_KEY", "GOOGLE_API_KEY"),
    "kimi": ("MOONSHOT_API_KEY",),
    "llamacpp": ("LLAMA_API_KEY",),
    "nemotron": ("NVIDIA_API_KEY",),
    "qwen": ("DASHSCOPE_API_KEY",),
}
"""The variables of services whose variable is not `NAME_API_KEY`. The first that is set is taken."""

WITHOUT = frozenset({"bedrock", "llamacpp", "lmstudio", "local", "minicpm-v", "ollama", "openbmb", "vllm"})
"""Services that mostly run without one, or find their credentials elsewhere."""


def key_variables(provider: str) -> tuple[str, ...]:
    """The environment variables that may hold a service's key."""
    made = "".join(letter if letter.isalnum() else "_" for letter in provider).upper()
    return VARIABLES.get(provider, (f"{made}_API_KEY",))


def key_for(
    provider: str, given: str | None = None, environ: Mapping[str, str] = os.environ, *, required: bool | None = None
) -> Secret | None:
    """The key of a service: what was given, or what the environment has.

    `given` is a key, or `env:NAME` for the variable that holds it. `required` is by
    default whether the service is one that wants a key.

    Raises:
        UsageError: There is none; the error names the variable to set.
    """
    if given is not None and not given.startswith("env:"):
        return _checked(given, f"the key given for {provider}")
    names = key_variables(provider) if given is None else (given.removeprefix("env:"),)
    for name in names:
        if environ.get(name, "").strip():
            return _checked(environ[name], f"the environment variable {name}")
    if given is None and not (provider not in WITHOUT if required is None else required):
        return None
    raise UsageError(f"no key for {provider}: set the environment variable {' or '.join(names)}")


def _checked(text: str, what: str) -> Secret:
    """A key as it goes into a header. Files and shells add line ends around it."""
    key = text.strip()
    if not key.isascii() or not key.isprintable() or " " in key or not key:
        raise UsageError(f"{what} is not a key: it is empty, or has spaces or characters that no header takes")
    remember_secret(key)
    return Secret(key)
