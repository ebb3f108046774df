"""What `handrail doctor` looks at: each check gives lines of ok, warn or fail. No secret is shown."""

from __future__ import annotations

import os
import platform
import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing
from importlib.util import find_spec
from pathlib import Path
from typing import Literal

import click
from msgspec import Struct

from handrail.app import SCRIPTED, model_names, settings_of
from handrail.app.person import endpoint_description
from handrail.cli.config.approval import approve_command
from handrail.cli.doctor.configuration_checks import server_problem
from handrail.cli.lazy_groups import one_line
from handrail.cli.output.view import answer, answer_json
from handrail.cli.terminal.person import terminal_person
from handrail.cli.text import count_text, printable
from handrail.cli.tools.tool_files import read_tool_file
from handrail.config.approvals import Approvals
from handrail.config.powers import powers_of
from handrail.config.rlm import RlmSettings
from handrail.config.values import Config, ModelSettings
from handrail.core.errors import HandrailError
from handrail.core.installation import install_command
from handrail.models.api_keys import WITHOUT, key_variables
from handrail.models.services import SERVICES
from handrail.sandbox.port import create_sandbox
from handrail.state.url import StateUrl

State = Literal["ok", "warn", "fail"]
_STATES: Mapping[str, State] = {"ok": "ok", "warn": "warn", "wrong": "fail"}
"""What is found of a server, and what that is to the doctor."""
_STYLES = {"ok": "good", "warn": "title", "fail": "bad"}


class DoctorCheck(Struct, frozen=True):
    state: State
    what: str
    found: str
    do: str = ""
    """What to do about it, if it is not ok."""


def check_python() -> Iterator[DoctorCheck]:
    yield DoctorCheck("ok", "python", f"{platform.python_version()} at {sys.executable}")


_EXTRAS = {
    # module       extra, what for
    "mcp": ("mcp", "using MCP servers, and being one"),
    "botocore": ("bedrock", "models on AWS Bedrock"),
    "xllamacpp": ("local", "the embedded model"),
    "wordllama": ("semantic", "matching by meaning"),
    "joserfc": ("bus", "tokens of nodes"),
    "starlette": ("server", "serving a node and its page over HTTP"),
    "textual": ("tui", "the terminal program"),
    "nats": ("nats", "nodes across machines"),
    "pydantic_monty": ("rlm", "the interpreter for code of models"),
    "pyseccomp": ("sandbox", "tools in the sandbox"),
}


def check_extras() -> Iterator[DoctorCheck]:
    for module, (extra, purpose) in _EXTRAS.items():
        if find_spec(module) is not None:
            yield DoctorCheck("ok", f"extra {extra}", f"{module} is installed, for {purpose}")
        else:
            missing = f"{module} is missing; it is for {purpose}"
            yield DoctorCheck("warn", f"extra {extra}", missing, install_command(extra))


def check_models(config: Config, environ: Mapping[str, str] = os.environ) -> Iterator[DoctorCheck]:
    try:
        names = model_names(config)
    except HandrailError:
        names = tuple(config.models)
        yield DoctorCheck(
            "warn", "models", "there are several and none is the default", "set default_model in handrail.toml"
        )
    for name in names:
        try:
            yield _model(name, settings_of(config, name), environ)
        except HandrailError as error:
            yield DoctorCheck("fail", f"model {name}", one_line(error), "correct it in handrail.toml")


def _model(name: str, settings: ModelSettings, environ: Mapping[str, str]) -> DoctorCheck:
    what = f"model {name}"
    variable = (settings.key or "").removeprefix("env:")
    service = SERVICES.get(settings.provider)
    needs_key = settings.provider not in WITHOUT if service is None else service.needs_key
    whose = settings.provider if service is None else service.key_of or settings.provider
    wanted = (variable,) if variable else key_variables(whose)
    there = [each for each in wanted if environ.get(each, "").strip()]
    if there:
        return DoctorCheck("ok", what, f"{settings.provider}; its key is in {there[0]}")
    if not variable and (not needs_key or settings.provider == SCRIPTED or settings.base_url):
        return DoctorCheck("ok", what, f"{settings.provider}; needs no key")
    return DoctorCheck(
        "fail", what, f"{settings.provider}; no key", f"set the environment variable {' or '.join(wanted)}"
    )


def check_approval(config: Config) -> Iterator[DoctorCheck]:
    """Whether the configuration may be used, and what it would do."""
    powers = powers_of(config)
    if config.file is None or not powers.lines:
        return
    why = Approvals.here().missing_approval(config.file, powers)
    if why is None:
        yield DoctorCheck("ok", "approval", "the configuration is approved")
    else:
        would = f"the configuration is not used: {why}; it would {'; '.join(powers.lines)}"
        yield DoctorCheck("warn", "approval", would, f"look at it, and run: {approve_command(config.file)}")


def check_tools(config: Config) -> Iterator[DoctorCheck]:
    """The tools of ensembles, as their files describe them. Python is looked up in its text, and not imported."""
    for path in config.ensembles:
        try:
            found = read_tool_file(path, config.file)
            if found.mistakes:
                raise found.mistakes[0]
            yield DoctorCheck("ok", f"tools {path.name}", count_text(len(found.tools), "tool"))
        except HandrailError as error:
            yield DoctorCheck("fail", f"tools {path.name}", one_line(error), f"run: handrail tools check {path}")


def check_sandbox() -> Iterator[DoctorCheck]:
    from handrail.sandbox.jail import unavailable

    if (why := unavailable()) is None:
        yield DoctorCheck("ok", "sandbox", "there is one, for tools with isolation='sandbox' and code of models")
    else:
        yield DoctorCheck("warn", "sandbox", f"there is none: {why}")


def check_rlm(config: Config, environ: Mapping[str, str] = os.environ) -> Iterator[DoctorCheck]:
    """What `[rlm]` names: where the code runs, and models that are not in `[models]`."""
    settings = config.rlm
    try:
        create_sandbox(settings.environment, settings.limits)
        yield DoctorCheck("ok", "rlm", f"code of models runs in {settings.environment!r}")
    except HandrailError as error:
        yield DoctorCheck("warn" if settings == RlmSettings() else "fail", "rlm", one_line(error))
    for name in dict.fromkeys((settings.model, *settings.sub_models)):
        if name is not None and name not in config.models:
            yield _model(name, settings_of(config, name), environ)


def check_servers(config: Config) -> Iterator[DoctorCheck]:
    """The MCP servers, none of which is started: whether they may be, and what they lack."""
    for name, settings in config.mcp.items():
        what = f"server {name}"
        try:
            noted = list(server_problem(config, name, terminal_person(ask=False)))
            settings.resolved()
        except HandrailError as error:
            yield DoctorCheck("fail" if settings.enabled else "ok", what, one_line(error))
            continue
        for state, words in noted:
            yield DoctorCheck(_STATES[state] if settings.enabled else "ok", what, words)
        if not noted:
            yield DoctorCheck("ok", what, f"it may be used: {endpoint_description(settings.endpoint)}")


def check_local(environ: Mapping[str, str] = os.environ) -> Iterator[DoctorCheck]:
    from handrail.models.local import weights

    if find_spec("xllamacpp") is None or find_spec("handrail_local") is None:
        yield DoctorCheck("warn", "local model", "its extra is not installed", install_command("local"))
    found = weights.find_merged(environ) or weights.find_weights(environ)
    if found is None:
        yield DoctorCheck("warn", "local weights", "not on this machine", f"run: {weights.COMMAND}")
    else:
        yield DoctorCheck("ok", "local weights", str(found))


def check_state(url: StateUrl) -> Iterator[DoctorCheck]:
    from handrail.journal.postgres_tables import SCHEMA
    from handrail.state.connections import connect
    from handrail.state.schema import check_version

    try:
        with closing(connect(url)) as connection:
            version = check_version(connection, url, SCHEMA)
            server = connection.info.server_version // 10_000
    except HandrailError as error:
        yield DoctorCheck("fail", "state", one_line(error), "mend url under [state], or HANDRAIL_STATE")
    else:
        used = "" if version else "; no node has used it yet"
        yield DoctorCheck("ok", "state", f"{url} on PostgreSQL {server}{used}")


def check_journal(path: Path) -> Iterator[DoctorCheck]:
    from handrail.journal.auditing import audit

    if not path.exists():
        yield DoctorCheck("ok", "journal", f"none yet; it will be {path}")
    else:
        try:
            report = audit(path)
        except HandrailError as error:
            yield DoctorCheck("fail", "journal", one_line(error), "name another with --journal")
        else:
            entries = count_text(report.entries, "entry")
            yield (
                DoctorCheck("ok", "journal", f"{path} verifies, {entries}")
                if report.ok
                else DoctorCheck("fail", "journal", f"{path} does not verify", "run: handrail proof verify")
            )
    folder = next(each for each in path.absolute().parents if each.exists())
    if os.access(folder, os.W_OK | os.X_OK):
        yield DoctorCheck("ok", "writing", str(folder))
    else:
        yield DoctorCheck("fail", "writing", f"{folder} cannot be written to", "name another place with --journal PATH")


def print_checks(checks: Iterable[DoctorCheck], *, as_json: bool, strict: bool = False) -> None:
    """Print each as it is found; exit 1 if one fails, or under `strict` only warns."""
    bad = False
    for check in checks:
        bad = bad or check.state == "fail" or (strict and check.state == "warn")
        if as_json:
            answer_json(check)
            continue
        do = f"; {printable(check.do)}" if check.do else ""
        answer(f"{check.state:<5} {printable(check.what)}: {printable(check.found)}{do}", _STYLES[check.state])
    if bad:
        raise click.exceptions.Exit(1)
