"""`handrail mcp revoke`: a word on a server, taken back."""

from __future__ import annotations

import click

from handrail.cli import text
from handrail.cli.consent import person_here
from handrail.cli.groups import examples
from handrail.cli.mcp_servers import complete_servers, file_of
from handrail.cli.setup import Setup, configured_unapproved
from handrail.cli.view import answer, answer_json
from handrail.core.errors import UsageError
from handrail.mcp.values import Http


@click.command("revoke", epilog=examples("handrail mcp revoke time"))
@click.argument("name", shell_complete=complete_servers)
@configured_unapproved
def command(setup: Setup, name: str) -> None:
    """Take back the approval of the server of this NAME, and forget its tools and its sign-in.

    Programs that have it in use go on with it until they end.
    """
    person = person_here(ask=False)
    was = person.approvals.revoke(file_of(setup.config), name)
    signed = _sign_out(setup, name)
    if not was and not signed:
        raise UsageError(f"{name!r} was not approved")
    if setup.view.as_json:
        answer_json({"server": name, "approved": False, "signed_out": signed})
    else:
        answer(f"{text.visible(name)} is approved no more{'; signed out' if signed else ''}")


def _sign_out(setup: Setup, name: str) -> bool:
    from handrail.mcp.client.signin import SignIn

    settings = setup.config.mcp.get(name)
    if settings is None or not isinstance(settings.endpoint, Http):
        return False
    return SignIn(store=person_here(ask=False).tokens, show=lambda address: None).forget(settings.endpoint.url)
