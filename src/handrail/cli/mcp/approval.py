"""`handrail mcp approve`, `revoke` and `login`: a person's decision on a server, and signing in to one."""

from __future__ import annotations

import asyncio
import webbrowser
from collections.abc import Mapping

import click

from handrail.app import Person
from handrail.app.tool_groups import GroupContext, make_server, server_refusal
from handrail.cli import text
from handrail.cli.lazy_groups import cli_command
from handrail.cli.mcp.server_selection import complete_servers, file_of, servers_by_name
from handrail.cli.output.view import answer, answer_json, ask, tell
from handrail.cli.run_options import CliSetup, configured, with_unapproved_configuration
from handrail.cli.terminal.person import describe_server_start, terminal_person
from handrail.config.approvals import differences, unapproved_reason
from handrail.core.errors import HandrailError, UsageError
from handrail.execute.confirm import DeferAll
from handrail.mcp.values import HttpEndpoint, RemoteTool


@cli_command("approve", "handrail mcp approve time", "handrail mcp approve --all", "handrail mcp approve time --yes")
@click.argument("names", nargs=-1, metavar="NAME…", shell_complete=complete_servers)
@click.option("--all", "every", is_flag=True, help="Approve every enabled server of the configuration.")
@click.option("--yes", is_flag=True, help="Do not ask.")
@click.option("--no-connect", is_flag=True, help="Do not connect to list the tools.")
@configured
def approve(setup: CliSetup, names: tuple[str, ...], every: bool, yes: bool, no_connect: bool) -> None:
    """Review exactly what each server NAME would run, approve it, and accept its current tools.

    The approval covers this command with these arguments and names of variables, or this address with these headers, in
    this configuration file. If they change, you are asked again. A tool whose description or schema changes later is
    withheld until you approve it again; the difference is shown. The exit code is 1 if a server cannot be started.
    """
    chosen = tuple(name for name, each in setup.config.mcp.items() if each.enabled) if every else names
    if not chosen:
        raise UsageError("name a server, or give --all")
    for name in chosen:
        servers_by_name(setup.config, name)
    done = [
        asyncio.run(approve_server(setup, name, terminal_person(ask=False), yes, not no_connect)) for name in chosen
    ]
    if not all(done):
        raise click.exceptions.Exit(1)


async def approve_server(setup: CliSetup, name: str, person: Person, yes: bool, connect: bool) -> bool:
    """Take the person's decision on a server and its tools as they are; whether it is approved and could be started."""
    config, file = setup.config, file_of(setup.config)
    endpoint = config.mcp[name].endpoint
    why = unapproved_reason(person.approvals, file, name, endpoint)
    if why is not None or person.approvals.of(file, name) is None:
        describe_server_start(name, endpoint, why or "it is used for the first time")
        if not yes and not ask("Allow it, now and later?"):
            tell("Not approved.")
            return False
        person.approvals.approve(file, name, endpoint, by=person.by)
    if not connect:
        return _print_approved(setup, name, None)
    tell(f"Looking at the tools of {text.printable(name)} …")
    try:
        tools = await _tools(setup, name, person)
    except HandrailError as error:
        tell(f"It may be used, but its tools cannot be listed now: {text.printable(str(error))}")
        _print_approved(setup, name, None)
        return False
    known = person.approvals.of(file, name)
    held = {} if known is None or known.tools is None else differences(known.tools, tools, name)
    for tool, words in held.items():
        tell(f"  {text.printable(tool)}: {text.printable(words.rpartition('; look and accept')[0])}")
    if held and not yes and not ask("Accept these tools as they are now?"):
        tell("The approved tools are kept.")
        return False
    person.approvals.pin(file, name, endpoint, tools, by=person.by)
    return _print_approved(setup, name, tools)


class _ToolCollector:
    """Takes note of all tools of a server, and holds none back."""

    def __init__(self) -> None:
        self.tools: Mapping[str, RemoteTool] = {}

    def held(self, server: str, tools: Mapping[str, RemoteTool]) -> Mapping[str, str]:
        self.tools = tools
        return {}


async def _tools(setup: CliSetup, name: str, person: Person) -> Mapping[str, RemoteTool]:
    seen, around = _ToolCollector(), GroupContext(person, DeferAll())
    server = make_server(setup.config, name, setup.config.mcp[name], around, pins=seen, required=True)
    try:
        await server.ensemble.prepare()
        for tool, why in server.ensemble.held.items():
            tell(f"  {text.printable(text.short(tool))} cannot be offered: {text.printable(why)}")
        return seen.tools
    finally:
        await server.close()


def _print_approved(setup: CliSetup, name: str, tools: Mapping[str, RemoteTool] | None) -> bool:
    if setup.view.as_json:
        answer_json({"server": name, "approved": True, "tools": None if tools is None else sorted(tools)})
    elif tools is None:
        answer(f"{text.printable(name)} is approved; its tools will be accepted as they are when it is first used")
    else:
        counted = text.count_text(len(tools), "tool")
        answer(
            f"{text.printable(name)} is approved, with {counted}; see their descriptions with: handrail mcp show {name}"
        )
    return True


@cli_command("revoke", "handrail mcp revoke time")
@click.argument("name", shell_complete=complete_servers)
@with_unapproved_configuration
def revoke(setup: CliSetup, name: str) -> None:
    """Revoke the approval of the server NAME, and delete its list of tools and its sign-in.

    Programs that are using the server continue to use it until they end.
    """
    person = terminal_person(ask=False)
    was = person.approvals.revoke(file_of(setup.config), name)
    signed = _sign_out(setup, name)
    if not was and not signed:
        raise UsageError(f"{name!r} was not approved")
    setup.view.reply(
        {"server": name, "approved": False, "signed_out": signed},
        f"{text.printable(name)} is no longer approved{'; signed out' if signed else ''}",
    )


def _sign_out(setup: CliSetup, name: str) -> bool:
    from handrail.mcp.client.sign_in import SignIn

    settings = setup.config.mcp.get(name)
    if settings is None or not isinstance(settings.endpoint, HttpEndpoint):
        return False
    return SignIn(store=terminal_person(ask=False).tokens, show=lambda address: None).forget(settings.endpoint.url)


@cli_command("login", "handrail mcp login github", "handrail mcp login github --browser")
@click.argument("name", shell_complete=complete_servers)
@click.option("--browser", is_flag=True, help="Also open the address in your browser.")
@configured
def login(setup: CliSetup, name: str, browser: bool) -> None:
    """Sign in to the server NAME: open the address that is shown, and come back.

    The sign-in is kept in your state folder, readable only by you, and is renewed automatically.
    """
    settings = servers_by_name(setup.config, name)
    if not isinstance(settings.endpoint, HttpEndpoint) or settings.endpoint.oauth is None:
        raise UsageError(f"{name!r} has no sign-in; write oauth = true under [mcp.{name}] if it requires one")
    person = terminal_person(ask=False)
    if (why := unapproved_reason(person.approvals, file_of(setup.config), name, settings.endpoint)) is not None:
        raise UsageError(server_refusal(name, settings, why))
    asyncio.run(_login(setup, name, person, browser))
    setup.view.reply({"server": name, "signed_in": True}, f"Signed in to {text.printable(name)}")


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
