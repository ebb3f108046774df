"""`handrail state`: backups of what a node must not lose, and moving it between files and PostgreSQL."""

from __future__ import annotations

from handrail.cli.lazy_groups import lazy_group


@lazy_group(
    "state",
    {
        "backup": ("state.backups:backup", "Back up the state to one file while the node runs."),
        "verify": ("state.backups:verify", "Verify that a backup is complete and unchanged."),
        "restore": ("state.backups:restore", "Restore a backup into an empty place."),
        "migrate": ("state.migrate:migrate", "Move a node between files and PostgreSQL."),
        "erase": ("state.erase:erase", "Erase a run or a person everywhere, and say what stays."),
        "retain": ("state.retain:retain", "Remove what is older or larger than [retention] allows."),
        "compact": ("state.compact:compact", "Free the disk space of erased data."),
    },
    "handrail state backup /backups/node-2026-11-18.tar",
    "handrail state verify /backups/node-2026-11-18.tar",
    "handrail state restore /backups/node-2026-11-18.tar --to .handrail",
    "handrail state migrate .handrail postgresql://handrail@db/handrail",
)
def command() -> None:
    """Back up, restore and move the state of this node.

    The state is its key, tokens, conversations, events, blobs and record. It is in files beside the journal or, with
    [state] url or HANDRAIL_STATE, in a PostgreSQL database that several replicas share. A backup has the same format in
    both cases and can be restored into either.
    """
