"""`handrail doctor`: whether everything is in order, line by line."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import click

from handrail.cli.doctor import checks
from handrail.cli.doctor.checks import DoctorCheck, print_checks
from handrail.cli.doctor.node_checks import check_network
from handrail.cli.lazy_groups import cli_command, one_line
from handrail.cli.output.view import CommandView, with_common_options
from handrail.cli.run_options import CliSetup
from handrail.config.load import find_config, load_config
from handrail.config.values import Config
from handrail.core.errors import HandrailError


@cli_command("doctor", "handrail doctor", "handrail doctor --json | jq 'select(.state != \"ok\")'")
@click.option("--config", type=click.Path(path_type=Path), metavar="PATH", help="The configuration.")
@with_common_options
def command(view: CommandView, config: Path | None) -> None:
    """Look whether everything is in order, and say what to do.

    Python, extras, the configuration, keys (whether they are set, never what they are), where code of models runs,
    tools, MCP servers, the embedded model, the journal; of a node its key, its tokens, the NATS server and what its
    services have. No server is started and no Python of a file is imported. Exit code 1 means that something fails.
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
        said = "no handrail.toml here or above: the defaults hold" if found is None else f"{found} is valid"
        yield DoctorCheck("ok", "configuration", said)
    except HandrailError as error:
        yield DoctorCheck("fail", "configuration", one_line(error), "mend it there")
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
    yield from checks.check_journal(journal)
    yield from check_network(config, journal)
