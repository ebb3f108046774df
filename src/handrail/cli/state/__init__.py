"""`handrail state`: backups of what a node must not lose, and moving it between files and PostgreSQL."""

from __future__ import annotations

from handrail.cli.lazy_groups import lazy_group


@lazy_group(
    "state",
    {
        "backup": ("state.backups:backup", "Put the state into one file, while the node works."),
        "verify": ("state.backups:verify", "See that a backup is whole and what was put in."),
        "restore": ("state.backups:restore", "Have the state of a backup in an empty place."),
        "migrate": ("state.migrate:migrate", "Move a node between files and PostgreSQL."),
        "erase": ("state.erase:erase", "Erase a run or a person everywhere, and say what stays."),
        "compact": ("state.compact:compact", "Give back the space of what was erased."),
    },
    "handrail state backup /backups/node-2026-11-18.tar",
    "handrail state verify /backups/node-2026-11-18.tar",
    "handrail state restore /backups/node-2026-11-18.tar --to .handrail",
    "handrail state migrate .handrail postgresql://handrail@db/handrail",
)
def command() -> None:
    """Back up what this node must not lose, and move it to PostgreSQL.

    That is its key, tokens, conversations, events, blobs and record. It is in files beside the journal, or, with
    [state] url or HANDRAIL_STATE, in a PostgreSQL database that several replicas share. A backup is the same file in
    either case and is restored into either.
    """
