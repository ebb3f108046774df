"""From `handrail.toml` to a `Config`. Whatever is wrong is a `ConfigError` with file, line and key."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, get_args

from handrail.config.approval_settings import read_approvals
from handrail.config.find import (
    NAME as NAME,
    VARIABLE as VARIABLE,
    check_owner as check_owner,
    find_config as find_config,
)
from handrail.config.hook import HOOK, HookSettings
from handrail.config.mcp import McpSettings, ServeSettings, read_serve, read_servers, refuse_secrets
from handrail.config.network import read_node, read_services
from handrail.config.retention import RETENTION, RetentionSettings
from handrail.config.rlm import read_rlm
from handrail.config.setting_kinds import AMOUNT, FLAG, JSON, SECONDS, SECRET, TEXT, TEXTS, Kinds, choice, count, stated
from handrail.config.standard import read_standard
from handrail.config.state import read_state
from handrail.config.values import LOCAL, Config, LlmSettings, ModelSettings
from handrail.config.variables import KEY, fill_variables
from handrail.core.errors import UsageError
from handrail.execute.origins.flows import FLOW_RULES, FlowOutcome, Flows, UntrustedResults
from handrail.execute.output import SMALLEST
from handrail.execute.policy import AfterUntrusted, Policy
from handrail.execute.rules import Rule
from handrail.run.limits import Limits, OnLimit
from handrail.run.offering import Offering
from handrail.state.url import StateUrl
from handrail.tools.files.build import DEDUPLICATORS
from handrail.tools.files.toml_table import TomlKeyPath, TomlTable, read_toml_file
from handrail.tools.tool import Retry

TOP: Kinds = {"default_model": TEXT, "ensembles": TEXTS, "rules": TEXTS}
_TABLES = (
    *("models", "llm", "policy", "limits", "offering", "mcp", "standard"),
    *("serve", "node", "services", "rlm", "proof", "approvals", "hook", "state", "retention"),
)
MODEL: Kinds = {
    "provider": TEXT,
    "model": TEXT,
    "key": SECRET,
    "base_url": TEXT,
    "options": JSON,
    "fallback": TEXTS,
    "tools": TEXTS,
}
LLM: Kinds = {
    "tools_enabled": FLAG,
    "tools_max_iterations": count(1),
    "tools_per_tool_timeout_seconds": SECONDS,
    "tools_max_parallel": count(1),
    "tools_default_set": TEXTS,
    "tools_require_confirmation_for_side_effects": FLAG,
}
POLICY: Kinds = {
    "timeout": SECONDS,
    "concurrency": count(1),
    "confirm_side_effects": FLAG,
    "after_untrusted": choice(*get_args(AfterUntrusted)),
    "max_output": count(SMALLEST),
    "max_depth": count(1),
    "repair": FLAG,
    "max_retries": count(0),
    "deduplicator": choice(*DEDUPLICATORS),
    "max_left_running": count(1),
    "cancel_grace": SECONDS,
}
FLOWS: Kinds = {
    **dict.fromkeys(FLOW_RULES, choice(*get_args(FlowOutcome))),
    "untrusted_results": choice(*get_args(UntrustedResults)),
}
LIMITS: Kinds = {
    "iterations": count(1),
    "on_limit": choice(*get_args(OnLimit)),
    "calls_per_turn": count(1),
    "tokens": count(1),
    "seconds": SECONDS,
    "cost": AMOUNT,
    "same_failure": count(1),
    "same_answer": count(1),
    "wrong_calls": count(1),
    "wrong_answers": count(1),
}
OFFERING: Kinds = {"most": count(1), "found": count(1), "native": FLAG}
PROOF: Kinds = {"journal": TEXT}
SAME = {
    # of [policy], [limits]              of [llm]
    ("policy", "timeout"): "tools_per_tool_timeout_seconds",
    ("policy", "concurrency"): "tools_max_parallel",
    ("policy", "confirm_side_effects"): "tools_require_confirmation_for_side_effects",
    ("limits", "iterations"): "tools_max_iterations",
}
"""Two names for one setting: either may be written, not both."""


def load_config(path: Path | None, environ: Mapping[str, str] = os.environ) -> Config:
    """Load a file; without one, use the defaults. `HANDRAIL_STATE` applies in either case.

    Raises:
        ConfigError: It cannot be read, or something in it is wrong.
    """
    if path is None:
        return Config(state=read_state(TomlTable({}, TomlKeyPath("")), environ))
    return read_config(read_toml_file(path), path, environ)


def read_config(raw: TomlTable, path: Path, environ: Mapping[str, str] = os.environ) -> Config:
    """What the table of a file says.

    Raises:
        ConfigError: Something in it is wrong.
    """
    raw.only((*TOP, *_TABLES))
    _refuse_keys(raw)
    refuse_secrets(raw)
    # The servers stay as they are written: theirs are filled in when they are started.
    top = fill_variables(raw.without("mcp"), environ)
    models = _models(top)
    llm, calls, bounds = _treatment(top)
    return Config(
        file=path,
        default_model=_default(top, models),
        models=models,
        llm=LlmSettings(**llm),
        calls=calls,
        bounds=bounds,
        offering=Offering(**_stated(top, "offering", OFFERING)),
        rules=_rules(top),
        ensembles=_ensembles(top, path.parent),
        mcp=_servers(raw, models),
        standard=read_standard(top, path.parent, lambda name: _is_model(name, models)),
        serve=_served(top, models),
        node=read_node(top, path.parent),
        services=read_services(top, path.parent, lambda name: _is_model(name, models)),
        approvals=read_approvals(top),
        rlm=read_rlm(top, lambda name: _is_model(name, models)),
        journal=_journal(top, path.parent),
        hook=HookSettings(**_stated(top, "hook", HOOK)),
        state=read_state(top, environ),
        retention=RetentionSettings(**_stated(top, "retention", RETENTION)),
    )


def journal_in(path: Path, environ: Mapping[str, str] = os.environ) -> Path | None:
    """Reads only which journal a file names, for callers that need nothing else."""
    top = read_toml_file(path)
    proof = {key: value for key, value in top.values.items() if key == "proof"}
    return _journal(fill_variables(TomlTable(proof, top.place, top.origins), environ), path.parent)


def state_in(path: Path, environ: Mapping[str, str] = os.environ) -> StateUrl | None:
    """Reads only which shared state a file or the user names, for callers that need nothing else."""
    top = read_toml_file(path)
    state = {key: value for key, value in top.values.items() if key == "state"}
    return read_state(fill_variables(TomlTable(state, top.place, top.origins), environ), environ).url


def _refuse_keys(top: TomlTable) -> None:
    """Before `${NAME}` is filled in: a key never stands in a file, however it got there."""
    for name, facts in top.tables("models").items():
        key = facts.text("key")
        if key is not None and not KEY.fullmatch(key):
            raise facts.error(
                "key",
                "a key is not written into a file, which is copied, shared and committed; put it into an environment"
                f' variable and write key = "env:{name.upper().replace("-", "_")}_API_KEY", with its name',
            )


def _models(top: TomlTable) -> dict[str, ModelSettings]:
    found: dict[str, ModelSettings] = {}
    tables = top.tables("models")
    for name, facts in tables.items():
        if not facts.only(MODEL).text("provider"):
            raise facts.place.error('a model needs a provider, as in provider = "openai"')
        found[name] = ModelSettings(**stated(facts, MODEL))
    for name, facts in tables.items():
        for index, other in enumerate(found[name].fallback):
            if not _is_model(other, found):
                place = facts.at("fallback").at(index)
                raise place.error(f"there is no [models.{other}]; there are {', '.join(found)}")
    return found


def _is_model(name: str, models: Mapping[str, ModelSettings]) -> bool:
    return name in models or ":" in name or name == LOCAL


def _default(top: TomlTable, models: Mapping[str, ModelSettings]) -> str | None:
    """A name of [models], or `provider:model`; without one, the only model there is."""
    name = top.text("default_model")
    if name is not None and models and not _is_model(name, models):
        raise top.error("default_model", f"there is no [models.{name}]; there are {', '.join(models)}")
    return next(iter(models)) if name is None and len(models) == 1 else name


def _treatment(top: TomlTable) -> tuple[dict[str, Any], Policy, Limits]:
    llm, policy, limits = _stated(top, "llm", LLM), _policy(top), _stated(top, "limits", LIMITS)
    for (name, key), same in SAME.items():
        table = policy if name == "policy" else limits
        if key in table:
            if same in llm:
                at = top.place.at("llm", same)
                raise top.place.at(name, key).error(f"is the same setting as llm.{same} at {at}; keep one of them")
            llm[same] = table.pop(key)
    retries = policy.pop("max_retries", None)
    return llm, Policy(**policy, retry=None if retries is None else Retry(attempts=retries + 1)), Limits(**limits)


def _policy(top: TomlTable) -> dict[str, Any]:
    table = top.table("policy")
    if table is None:
        return {}
    found = stated(table.only((*POLICY, "flows")), POLICY)
    flows = table.table("flows")
    return found if flows is None else {**found, "flows": Flows(**stated(flows.only(FLOWS), FLOWS))}


def _stated(top: TomlTable, name: str, known: Kinds) -> dict[str, Any]:
    table = top.table(name)
    return {} if table is None else stated(table.only(known), known)


def _rules(top: TomlTable) -> tuple[Rule, ...]:
    found = []
    for index, text in enumerate(top.texts("rules") or ()):
        try:
            found.append(Rule.parse(text))
        except UsageError as error:
            raise top.at("rules").at(index).error(str(error)) from error
    return tuple(found)


def _ensembles(top: TomlTable, folder: Path) -> tuple[Path, ...]:
    paths = [folder / each for each in top.texts("ensembles") or ()]
    for index, path in enumerate(paths):
        if not os.path.isfile(path):  # that of `Path` raises where a folder may not be entered, or a name is too long
            raise top.at("ensembles").at(index).error(f"there is no file {str(path)!r}")
    return tuple(paths)


def _servers(top: TomlTable, models: Mapping[str, ModelSettings]) -> dict[str, McpSettings]:
    servers = read_servers(top)
    for name, settings in servers.items():
        if settings.sampling is not None and not _is_model(settings.sampling, models):
            raise top.at("mcp").at(name, "sampling").error(_no_model(settings.sampling, models))
    return servers


def _served(top: TomlTable, models: Mapping[str, ModelSettings]) -> ServeSettings:
    settings = read_serve(top)
    model = None if settings.converse is None else settings.converse.model
    if model is not None and not _is_model(model, models):
        raise top.at("serve").at("converse", "model").error(_no_model(model, models))
    return settings


def _no_model(name: str, models: Mapping[str, ModelSettings]) -> str:
    return f"there is no [models.{name}]; there are {', '.join(models) or 'none'}"


def _journal(top: TomlTable, folder: Path) -> Path | None:
    proof = top.table("proof")
    if proof is None:
        return None
    journal = proof.only(PROOF).text("journal")
    return None if journal is None else folder / journal
