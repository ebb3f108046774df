"""The options that commands share which work with models and tools: the configuration, and what is added to it."""

from __future__ import annotations

import functools
import shlex
import sys
from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from handrail.cli.complete import completer, named_config
from handrail.cli.journal_location import journal_to_write
from handrail.cli.output.view import CommandView, with_common_options
from handrail.core.errors import HandrailError

if TYPE_CHECKING:  # they are loaded when a command runs: its help needs none of them
    from handrail.app import Adjust, AppAdditions, Ask, Person
    from handrail.config.values import Config
    from handrail.run.offering import Offering


def _model_names(ctx: click.Context) -> tuple[str, ...]:
    from handrail.app import model_names
    from handrail.config.load import find_config, load_config

    return model_names(load_config(find_config(named_config(ctx), Path.cwd())))


complete_models = completer(_model_names)


_RUNS = "--journal of a command that runs something (HANDRAIL_STATE or [state] url names a shared state)"


@dataclass(frozen=True, slots=True)
class CliSetup:
    """What a command works with: the form of its output, and the configuration."""

    view: CommandView
    config: Config
    adjust: Adjust = lambda config: config
    """What was done to the configuration since it was read, for when it is read again."""

    @property
    def journal(self) -> Path:
        """The journal to write to. It need not be there yet."""
        home = Path.cwd() if self.config.file is None else self.config.file.parent
        return journal_to_write(self.view.named_file(_RUNS), self.config.journal, home, Path.cwd())

    def offering(self, most: int | None) -> Offering:
        """Which tools a turn offers, with the most that a person asks for here."""
        return _offering(self.config, most).offering

    def adjusted(self, adjust: Adjust) -> CliSetup:
        """The same with something changed in the configuration, now and whenever it is read again."""
        before = self.adjust
        return CliSetup(self.view, adjust(self.config), lambda config: adjust(before(config)))


def _offering(config: Config, most: int | None) -> Config:
    return config if most is None else replace(config, offering=replace(config.offering, most=most))


@dataclass(frozen=True, slots=True)
class RunOptions:
    """What a person asks for beside the configuration."""

    model: str | None = None
    tools: tuple[str, ...] = ()
    rules: tuple[str, ...] = ()
    yes: bool = False
    fallback: tuple[str, ...] = ()
    offer_at_most: int | None = None

    def wanted(self, config: Config) -> AppAdditions:
        from handrail.app import AppAdditions

        return AppAdditions(tools=self.tools, rules=self.rules, read_on=not _is_local(config, self.model))

    def ask(self) -> Ask:
        """The approver for calls that no rule decides: none after --yes, the person at the terminal, or one who answers
        later."""
        from handrail.app import AllowAll
        from handrail.cli.confirm.answers import login_name
        from handrail.execute.confirm import DeferAll
        from handrail.execute.terminal.approver import TerminalApprover

        if self.yes:
            return lambda tools: AllowAll(f"{login_name()}, by --yes")
        if sys.stdin.isatty() and sys.stderr.isatty():
            return lambda tools: TerminalApprover(by=login_name(), tools=tools)
        return lambda tools: DeferAll()

    def person(self) -> Person:
        """The person whose approvals of servers hold, and who is asked for more."""
        from handrail.cli.terminal.person import terminal_person

        return terminal_person()

    def resume_line(self, setup: CliSetup, run: str) -> str:
        """The command that takes up a run as it was asked for here."""
        words = ["handrail", "resume", run]
        words += ["-m", self.model] if self.model else []
        words += [word for each in self.fallback for word in ("--fallback", each)]
        words += [word for each in self.tools for word in ("--tools", each)]
        words += [word for each in self.rules for word in ("--rule", each)]
        words += [] if self.offer_at_most is None else ["--offer-at-most", str(self.offer_at_most)]
        words += ["--journal", str(setup.view.named)] if setup.view.named else []
        words += ["--config", str(setup.view.config)] if setup.view.config else []
        return shlex.join(words)


def configured(function: Callable[..., None]) -> Callable[..., None]:
    """Give a command the options that all have, and `--config`, as a `CliSetup`. Its configuration is approved, now and
    whenever it is read again."""

    def approved(setup: CliSetup, **options: Any) -> None:
        from handrail.cli.config.approval import check_approved, require_approval

        require_approval(setup.config)
        function(replace(setup, adjust=check_approved), **options)

    functools.update_wrapper(approved, function)
    return with_unapproved_configuration(approved)


def with_unapproved_configuration(function: Callable[..., None]) -> Callable[..., None]:
    """Like `configured`, for a command that only looks at the configuration: it imports, starts, obeys and sends
    nothing that the file names."""

    def with_setup(view: CommandView, config: Path | None, **options: Any) -> None:
        from handrail.config.load import find_config, load_config

        named = config or view.config
        function(CliSetup(replace(view, config=named), load_config(find_config(named, Path.cwd()))), **options)

    functools.update_wrapper(with_setup, function)
    option = click.option("--config", type=click.Path(path_type=Path), metavar="PATH", help="The configuration.")
    return with_common_options(option(with_setup))


def with_model(function: Callable[..., None]) -> Callable[..., None]:
    return click.option(
        "-m",
        "--model",
        metavar="MODEL",
        shell_complete=complete_models,
        help="A name from [models] in handrail.toml, or PROVIDER:MODEL. Default: default_model, or local.",
    )(function)


def with_fallback(function: Callable[..., None]) -> Callable[..., None]:
    return click.option(
        "--fallback",
        multiple=True,
        metavar="MODEL",
        shell_complete=complete_models,
        help="A model to ask if the first gives no reply, instead of the configured ones; can be given several times.",
    )(function)


def with_tools(function: Callable[..., None]) -> Callable[..., None]:
    return click.option(
        "--tools",
        multiple=True,
        metavar="WHERE",
        help="FILE.py, FILE.toml, MODULE or MODULE:NAME, instead of the configured tools; can be given several times.",
    )(function)


def with_offer_limit(function: Callable[..., None]) -> Callable[..., None]:
    return click.option(
        "--offer-at-most",
        type=click.IntRange(1),
        metavar="N",
        help="With more tools than this, a turn offers the best matches and find_tools. Default: offering.most, or 64.",
    )(function)


def with_rule_and_yes(function: Callable[..., None]) -> Callable[..., None]:
    rule = click.option(
        "--rule",
        "rules",
        multiple=True,
        metavar="RULE",
        help="A rule in addition to the configured ones, such as 'allow write_file path=docs/**';"
        " can be given several times.",
    )
    return rule(
        click.option(
            "--yes",
            is_flag=True,
            help="Allow every side effect that no rule denies, except what nobody could foresee,"
            " such as a changed tool.",
        )(function)
    )


def nats_option(help: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Gives a command `nats`, a tuple that is empty if the option was not given."""
    several = " Name several by repeating the option or with commas; one at a time is used."
    return click.option("--nats", metavar="URL", multiple=True, callback=_nats_addresses, help=help + several)


def _nats_addresses(context: click.Context, option: click.Parameter, given: tuple[str, ...]) -> tuple[str, ...]:
    from handrail.node.nats.server_addresses import split_addresses

    return tuple(address for text in given for address in split_addresses(text))


files_option = click.option(
    "--files",
    type=click.Path(path_type=Path, file_okay=False),
    metavar="FOLDER",
    help="Save pictures and files that the model makes in this folder. Otherwise only their names are shown.",
)


def rule_option(example: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Gives a command `rules`, where nothing is allowed by `--yes`."""
    help = f"A rule in addition to the configured ones, such as {example!r}."
    return click.option("--rule", "rules", multiple=True, metavar="RULE", help=help)


def with_run_options(function: Callable[..., None]) -> Callable[..., None]:
    """Give a command -m, --fallback, --tools, --offer-at-most, --rule and --yes as a `RunOptions`."""

    def with_chosen(setup: CliSetup, **options: Any) -> None:
        chosen = RunOptions(**{each.name: options.pop(each.name) for each in fields(RunOptions)})
        function(setup.adjusted(lambda config: _offering(config, chosen.offer_at_most)), chosen, **options)

    functools.update_wrapper(with_chosen, function)
    return with_model(with_fallback(with_tools(with_offer_limit(with_rule_and_yes(configured(with_chosen))))))


def _is_local(config: Config, model: str | None) -> bool:
    from handrail.app import model_names, settings_of
    from handrail.config.values import LOCAL

    try:
        return settings_of(config, model or model_names(config)[0]).provider == LOCAL
    except HandrailError:
        return False  # it is said where the model is opened
