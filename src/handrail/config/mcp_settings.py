"""What a configuration says of MCP servers, of handrail's own ensembles and of serving others, as values."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal

from msgspec.structs import replace

from handrail.config.variables import KEY, environment_value, expanded_path, fill_text_variables, secret_variable
from handrail.mcp.values import Endpoint, Era, HttpEndpoint, McpBounds, StdioEndpoint
from handrail.tools.ensemble import ToolDefaults
from handrail.tools.files.toml_table import TomlKeyPath

NewTools = Literal["hold", "allow"]


def path_from_file(place: TomlKeyPath, path: str) -> str:
    """A path as a file means it: from the folder that the file is in."""
    return str((place.folder or Path()).absolute() / expanded_path(path))


@dataclass(frozen=True, slots=True, kw_only=True)
class McpSettings:
    """One MCP server by the name that people call it."""

    endpoint: Endpoint
    """As it is written: `env:NAME` and `${NAME}` are still that, so that no secret is shown, approved or kept."""
    enabled: bool = True
    required: bool = False
    """Whether nothing starts without it."""
    prefix: str = ""
    """Before the names of its tools, where two servers have the same."""
    only: tuple[str, ...] | None = None
    """The tools that are taken from it; None is all."""
    hints: bool = True
    """Whether it is believed what it says of side effects."""
    era: Era = "auto"
    new_tools: NewTools = "hold"
    """What becomes of a tool that it did not have when it was approved."""
    sampling: str | None = None
    """The model that answers where the server asks for one; none unless it is named here."""
    defaults: ToolDefaults = field(default_factory=ToolDefaults)
    bounds: McpBounds = field(default_factory=McpBounds)

    place: TomlKeyPath = field(default=TomlKeyPath("the settings of an MCP server"), compare=False, repr=False)
    """Where it is written, for mistakes that only show when it is started."""

    def resolved(self, environ: Mapping[str, str] = os.environ) -> Endpoint:
        """The endpoint with what the environment holds. A program runs in the folder of its file, wherever we stand.

        Raises:
            ConfigError: A variable is not set.
        """
        fill = _VariableFiller(self.place, environ)
        here = None if self.place.folder is None else str(self.place.folder.absolute())
        match self.endpoint:
            case StdioEndpoint(command=command, args=args, env=env, cwd=cwd):
                return StdioEndpoint(
                    command=fill.text(command, "command"),
                    args=tuple(fill.text(each, "args", index) for index, each in enumerate(args)),
                    env={name: fill.value(value, "env", name) for name, value in env.items()},
                    cwd=here if cwd is None else path_from_file(self.place, fill.text(cwd, "cwd")),
                )
            case HttpEndpoint(url=url, headers=headers, oauth=oauth):
                secret = None if oauth is None else oauth.client_secret
                if oauth is not None and secret is not None:
                    oauth = replace(oauth, client_secret=fill.value(secret, "oauth", "client_secret"))
                filled = {name: fill.value(value, "headers", name) for name, value in headers.items()}
                return HttpEndpoint(url=fill.text(url, "url"), headers=filled, oauth=oauth)


@dataclass(frozen=True, slots=True)
class _VariableFiller:
    place: TomlKeyPath
    environ: Mapping[str, str]

    def text(self, written: str, *path: str | int) -> str:
        return fill_text_variables(written, self.place.at(*path), self.environ)

    def value(self, written: str, *path: str | int) -> str:
        """As text, and `env:NAME` is the whole value of that variable."""
        if not KEY.fullmatch(written):
            return self.text(written, *path)
        return environment_value(written.removeprefix("env:"), self.place.at(*path), self.environ)


@dataclass(frozen=True, slots=True, kw_only=True)
class SummarizeSettings:
    model: str | None = None
    """The model that it asks, by name; None is the default one."""
    settings: Any = None
    """`handrail.library.summarization.SummarizationSettings`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StandardSettings:
    """Which of handrail's own ensembles are used. Each has settings of its own; None is not used."""

    io: Any = None
    """`handrail.library.io.IoSettings`."""
    probability: bool = False
    summarization: SummarizeSettings | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ConverseSettings:
    """The `converse` tool: a model with its tools as one tool."""

    model: str | None = None
    name: str = "converse"
    description: str = ""
    system: str = ""
    """What the model is told before everything else."""
    tools: tuple[str, ...] | None = None
    """What it may call; None is what its caller may."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PromptSettings:
    """A prompt that people can pick in their client."""

    text: str
    """With `{names}` to fill in, each of which is an argument."""
    description: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ServeSettings:
    """What `handrail mcp serve` gives to others."""

    converse: ConverseSettings | None = None
    tools: tuple[str, ...] | None = None
    """The tools that are served, by names or patterns; None is all."""
    conversations: bool = False
    """Whether saved conversations can be read."""
    proofs: bool = False
    """Whether the proofs of runs can be read."""
    corpora: Mapping[str, Path] = field(default_factory=lambda: MappingProxyType({}))
    """Folders of texts that can be read, by name."""
    prompts: Mapping[str, PromptSettings] = field(default_factory=lambda: MappingProxyType({}))
    instructions: str = ""
    """What clients are told of this server."""
    hosts: tuple[str, ...] = ()
    origins: tuple[str, ...] = ()
    token: str | None = None
    """`env:NAME`: where the token is that HTTP callers must bring. Never the token."""

    def secret(self, environ: Mapping[str, str] = os.environ) -> str | None:
        """The token itself.

        Raises:
            ConfigError: Its variable is not set.
        """
        return secret_variable(self.token, "serve.token", environ)
