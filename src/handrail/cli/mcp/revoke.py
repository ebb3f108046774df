"""`handrail mcp revoke`: a word on a server, taken back."""

from __future__ import annotations

import click

from handrail.cli import text
from handrail.cli.lazy_groups import examples
from handrail.cli.mcp.server_selection import complete_servers, file_of
from handrail.cli.output.view import answer, answer_json
from handrail.cli.run_options import CliSetup, with_unapproved_configuration
from handrail.cli.terminal.person import terminal_person
from handrail.core.errors import UsageError
from handrail.mcp.values import HttpEndpoint


@click.command("revoke", epilog=examples("handrail mcp revoke time"))
@click.argument("name", shell_complete=complete_servers)
@with_unapproved_configuration
def command(setup: CliSetup, name: str) -> None:
    """Take back the approval of the server of this NAME, and forget its tools and its sign-in.

    Programs that have it in use go on with it until they end.
    """
    person = terminal_person(ask=False)
    was = person.approvals.revoke(file_of(setup.config), name)
    signed = _sign_out(setup, name)
    if not was and not signed:
        raise UsageError(f"{name!r} was not approved")
    if setup.view.as_json:
        answer_json({"server": name, "approved": False, "signed_out": signed})
    else:
        answer(f"{text.printable(name)} is approved no more{'; signed out' if signed else ''}")


def _sign_out(setup: CliSetup, name: str) -> bool:
    from handrail.mcp.client.sign_in import SignIn

    settings = setup.config.mcp.get(name)
    if settings is None or not isinstance(settings.endpoint, HttpEndpoint):
        return False
    return SignIn(store=terminal_person(ask=False).tokens, show=lambda address: None).forget(settings.endpoint.url)
