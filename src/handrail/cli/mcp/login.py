"""`handrail mcp login`: signing in to a server, in a browser."""

from __future__ import annotations

import asyncio
import webbrowser

import click

from handrail.app import Person
from handrail.app.tool_groups import GroupContext, make_server, server_refusal
from handrail.cli import text
from handrail.cli.lazy_groups import examples
from handrail.cli.mcp.server_selection import complete_servers, file_of, servers_by_name
from handrail.cli.output.view import answer, answer_json, tell
from handrail.cli.run_options import CliSetup, configured
from handrail.cli.terminal.person import terminal_person
from handrail.config.approvals import unapproved_reason
from handrail.core.errors import UsageError
from handrail.execute.confirm import DeferAll
from handrail.mcp.values import HttpEndpoint


@click.command("login", epilog=examples("handrail mcp login github", "handrail mcp login github --browser"))
@click.argument("name", shell_complete=complete_servers)
@click.option("--browser", is_flag=True, help="Open the address in your browser too.")
@configured
def command(setup: CliSetup, name: str, browser: bool) -> None:
    """Sign in to the server of this NAME: open the address that is shown, and come back.

    What it gives is kept in your state folder, readable by you alone, and renewed by itself.
    """
    settings = servers_by_name(setup.config, name)
    if not isinstance(settings.endpoint, HttpEndpoint) or settings.endpoint.oauth is None:
        raise UsageError(f"{name!r} has no sign-in; write oauth = true under [mcp.{name}] if it wants one")
    person = terminal_person(ask=False)
    if (why := unapproved_reason(person.approvals, file_of(setup.config), name, settings.endpoint)) is not None:
        raise UsageError(server_refusal(name, settings, why))
    asyncio.run(_login(setup, name, person, browser))
    if setup.view.as_json:
        answer_json({"server": name, "signed_in": True})
    else:
        answer(f"Signed in to {text.printable(name)}")


async def _login(setup: CliSetup, name: str, person: Person, browser: bool) -> None:
    from handrail.mcp.client.sign_in import SignIn

    def show(address: str) -> None:
        tell(f"Open this address, and sign in:\n  {text.printable(address)}")
        if browser:
            webbrowser.open(address)

    around = GroupContext(person, DeferAll())
    sign_in = SignIn(store=person.tokens, show=show)
    server = make_server(setup.config, name, setup.config.mcp[name], around, sign_in=sign_in, required=True)
    try:
        await server.ensemble.prepare()
    finally:
        await server.close()
