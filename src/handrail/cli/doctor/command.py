"""`handrail doctor`: whether everything is in order, line by line."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import click

from handrail.cli.doctor import checks
from handrail.cli.doctor.checks import DoctorCheck, print_checks
from handrail.cli.doctor.node_checks import check_network
from handrail.cli.lazy_groups import cli_command, one_line
from handrail.cli.output.view import CommandView, with_common_options, with_output_file
from handrail.cli.run_options import CliSetup
from handrail.config.load import find_config, load_config
from handrail.config.values import Config
from handrail.core.errors import HandrailError


@cli_command("doctor", "handrail doctor", "handrail doctor --json | jq 'select(.state != \"ok\")'")
@click.option("--config", type=click.Path(path_type=Path), metavar="PATH", help="The configuration.")
@with_common_options
@with_output_file
def command(view: CommandView, config: Path | None) -> None:
    """Check the installation and say how to fix problems.

    It checks Python, extras, the configuration, keys (only whether they are set), the sandbox for code of models,
    tools, MCP servers, the embedded model and the journal; for a node also its key, tokens, NATS server and services.
    It starts no server and imports no Python file. The exit code is 1 if a check fails.
    """
    print_checks(_all(view, config or view.config), as_json=view.as_json)


def _all(view: CommandView, named: Path | None) -> Iterator[DoctorCheck]:
    yield from checks.check_python()
    yield from checks.check_extras()
    yield from checks.check_sandbox()
    config = Config()
    try:
        found = find_config(named, Path.cwd())
        config = load_config(found)
        said = "no handrail.toml here or above: the defaults apply" if found is None else f"{found} is valid"
        yield DoctorCheck("ok", "configuration", said)
    except HandrailError as error:
        yield DoctorCheck("fail", "configuration", one_line(error), "correct it there")
    yield from checks.check_approval(config)
    yield from checks.check_models(config)
    yield from checks.check_rlm(config)
    yield from checks.check_tools(config)
    yield from checks.check_servers(config)
    yield from checks.check_local()
    try:
        journal = CliSetup(view, config).journal
    except HandrailError as error:
        yield DoctorCheck("fail", "journal", one_line(error))
        return
    if config.state.url is None:
        yield from checks.check_journal(journal)
    else:
        yield from checks.check_state(config.state.url)
    yield from check_network(config, journal)
