"""`handrail hook`: its help, its installation, and the hooks themselves where more is said than `process.py` reads."""

from __future__ import annotations

from pathlib import Path

import click

from handrail.cli.hook.hosts import HOSTS, NAMES, Host
from handrail.cli.lazy_groups import cli_command, lazy_group
from handrail.cli.output.view import CommandView, with_common_options
from handrail.cli.text import printable


@lazy_group(
    "hook",
    {
        "claude": ("hook.commands:claude", "Answer a hook of Claude Code, on stdin."),
        "codex": ("hook.commands:codex", "Answer a hook of Codex, on stdin."),
        "copilot": ("hook.commands:copilot", "Answer a hook of Copilot, on stdin."),
        "install": ("hook.commands:install_hook", "Add the hook to the settings of a coding agent, or remove it."),
    },
    "handrail hook install claude",
    "handrail hook install claude --user",
    "handrail hook install claude --undo",
)
def command() -> None:
    """Apply your rules to the calls of a coding agent.

    The agent runs `handrail hook claude` before and after each tool call. The rules in handrail.toml allow, deny or
    ask; for any other call the agent applies its own permissions.
    """


def _hook(host: Host) -> click.Command:
    @cli_command(host, f"handrail hook install {host}", f"handrail hook {host} < event.json")
    @click.option("--config", type=click.Path(path_type=Path), metavar="PATH", help="The configuration.")
    @with_common_options
    def answer(view: CommandView, config: Path | None) -> None:
        from handrail.cli.hook.process import HookPlace, run_hook

        run_hook(host, HookPlace(config or view.config, view.named_file("handrail hook")))

    answer.help = f"Answer one event that {NAMES[host]} writes to stdin. It is for the agent; you install it."
    return answer


claude, codex, copilot = map(_hook, HOSTS)


@cli_command(
    "install",
    "handrail hook install claude            for you, in this project",
    "handrail hook install claude --project  for everybody who works on this project",
    "handrail hook install codex --user",
    "handrail hook install claude --undo",
)
@click.argument("host", type=click.Choice(HOSTS))
@click.option("--project", "scope", flag_value="project", help="Use the settings of the project, which are shared.")
@click.option("--local", "scope", flag_value="local", help="Use your own settings for this project.")
@click.option("--user", "scope", flag_value="user", help="Use your own settings for all projects.")
@click.option("--undo", is_flag=True, help="Remove the hook.")
@click.option("--dry-run", is_flag=True, help="Only show which file would change.")
@with_common_options
def install_hook(view: CommandView, host: Host, scope: str | None, undo: bool, dry_run: bool) -> None:
    """Add the hook to the settings of HOST, or remove it with --undo.

    Nothing else in the file changes, and a backup of the file is kept beside it. Without a scope, the hook is added for
    you in this project if the agent has such a file, otherwise for the project.
    """
    from handrail.cli.hook.install import Scope, hook_command, install, settings_file, uninstall

    chosen: Scope = "project" if scope == "project" else "user" if scope == "user" else "local"
    if scope is None and host != "claude":
        chosen = "project"
    file = settings_file(host, chosen, Path.cwd())
    command, changed = hook_command(host, chosen), False
    if dry_run:
        says = f"would run {command}"
    elif undo:
        changed = uninstall(file, host)
        says = "the hook was removed" if changed else "there is no hook of handrail in it"
    else:
        changed = install(file, host, command)
        says = f"{NAMES[host]} will ask handrail from its next session on" if changed else "the hook was already there"
    view.reply(
        {"file": str(file), "command": command, "changed": changed}, f"{printable(str(file))}: {printable(says)}"
    )
    if undo and not changed and not dry_run:
        raise click.exceptions.Exit(1)
