"""`handrail proof checkpoint`: the signed state of the journal, to keep elsewhere."""

from __future__ import annotations

import click

from handrail.cli import text
from handrail.cli.lazy_groups import examples
from handrail.cli.output.view import CommandView, answer_json, tell, with_common_options
from handrail.core.errors import JournalError
from handrail.journal.note import Checkpoint, split_note


@click.command(
    "checkpoint",
    epilog=examples(
        "handrail proof checkpoint > journal.note",
        "handrail proof verify --against journal.note",
    ),
)
@with_common_options
def command(view: CommandView) -> None:
    """Print the latest signed checkpoint: what to keep elsewhere.

    It fixes how many entries there are and what they say. Whoever changes the journal later,
    even with its key, cannot make it agree with a copy that is kept out of reach.
    """
    with view.reader() as reader:
        signed, size, key = reader.checkpoints(), reader.size(), reader.verifier_key
    if not signed:
        raise JournalError(
            f"the journal {str(view.path)!r} has no checkpoint yet; one is signed when a run ends or the journal closes"
        )
    note = signed[-1][1]
    checkpoint = Checkpoint.parse(split_note(note)[0])
    if view.as_json:
        answer_json(
            {
                "origin": checkpoint.origin,
                "size": checkpoint.size,
                "root": checkpoint.root.hex(),
                "verifier_key": key,
                "unsigned": size - checkpoint.size,
                "note": note,
            }
        )
        return
    click.echo(text.printable_lines(note), nl=False)
    tell(f"It covers {checkpoint.size:,} of {text.count_text(size, 'entry')}; it is signed by {text.printable(key)}")
    tell("Keep it where whoever can change the journal cannot: handrail proof verify --against FILE")
