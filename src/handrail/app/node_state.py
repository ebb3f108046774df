"""The state of a node: files beside its journal, or a database that its replicas share.

Whoever opens a store of a node asks here for its place, so that all of them are in the same one.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path

from handrail.config.approvals import Approvals
from handrail.config.standing_rules import FileRules, SharedRules, StandingRules
from handrail.config.values import Config
from handrail.core.errors import StateError, UsageError
from handrail.core.ids import NewId, new_id
from handrail.core.ports import Clock, SystemClock
from handrail.journal.approval_links import ApprovalLinks
from handrail.journal.places import JournalPlace
from handrail.node.tokens.identity import Identity
from handrail.node.tokens.token_store import TokenStore
from handrail.sessions.store.port import Conversations, open_conversations
from handrail.sessions.store.shared_spill import SharedSpill
from handrail.sessions.store.spill import DirectorySpill, KeptOutputs
from handrail.state.database import StateDatabase
from handrail.state.keys import known_key, shared_key
from handrail.state.url import StateUrl

KEY = "identity.key"
"""The name of the key of this node, beside the journal; also in the shared state."""
LINKS = "approvals.key"
"""The key that signs the links of the approval webhook, in the shared state."""
TOKENS = "tokens.db"
"""Beside the journal too."""


@dataclass(frozen=True, slots=True)
class NodeState:
    folder: Path
    """The folder of the journal."""
    database: StateDatabase | None = None
    """The database that all replicas share, if there is one."""

    @property
    def place(self) -> Path | StateDatabase:
        return self.folder if self.database is None else self.database

    def file(self, name: str, folder: Path | None = None) -> Path | StateDatabase:
        """The place of a store that is a file of this name where there is no database."""
        return (folder or self.folder) / name if self.database is None else self.database

    def tokens(self) -> TokenStore:
        return TokenStore(self.file(TOKENS))

    def outputs(self, *, new_id: NewId = new_id) -> KeptOutputs:
        """The store of long outputs, from which models read the rest."""
        if self.database is None:
            return DirectorySpill(self.folder / "outputs", new_id=new_id)
        return SharedSpill(self.database, new_id=new_id)

    def conversations(self, *, clock: Clock = SystemClock(), new_id: NewId = new_id) -> Conversations:
        return open_conversations(self.place, clock=clock, new_id=new_id)

    def standing_rules(self, approvals: Approvals, config: Path | None) -> StandingRules:
        """What a person said once and for all: of this configuration in the user's file, or of all replicas."""
        return FileRules(approvals, config) if self.database is None else SharedRules(self.database)

    def approval_links(self) -> ApprovalLinks:
        """What makes and reads the links by which a person answers a question. They open at every replica.

        Raises:
            JournalError: The key cannot be used as it is, or cannot be made.
            StateError: The database cannot be used.
        """
        if self.database is None:
            return ApprovalLinks.beside(self.folder / "journal.db")
        return ApprovalLinks(bytes.fromhex(shared_key(self.database, LINKS, lambda: secrets.token_hex(32))))

    def identity(self, config: Config, *, create: bool = True) -> Identity:
        """The key that this node signs with: in the file that the configuration names, else with the rest of the state.

        Raises:
            UsageError: It cannot be used; or there is none, where none is to be made.
            StateError: The database cannot be used, or its replicas sign with another key.
        """
        if self.database is None:
            path = config.node.identity or self.folder / KEY
            return Identity.load_or_create(path) if create else Identity.load(path)
        if not create and not self.has_identity(config):
            raise UsageError(f"there is no key at {self.database.url}; make one with: handrail identity new")
        if config.node.identity is not None:
            identity = Identity.load(config.node.identity)
        else:
            identity = Identity.parse(shared_key(self.database, KEY, lambda: Identity.new().text))
        node_id = identity.node_id
        if (known := shared_key(self.database, "node_id", lambda: node_id)) != node_id:
            raise StateError(
                f"the replicas at {self.database.url} are the node {known}, and the key of this one is that of"
                f" {node_id}; give all of them the same file as [node] identity, or none of them"
            )
        return identity

    def has_identity(self, config: Config) -> bool:
        """Whether there is a key already."""
        if config.node.identity is not None or self.database is None:
            return (config.node.identity or self.folder / KEY).exists()
        return known_key(self.database, KEY) is not None


def state_of(config: Config, journal: Path) -> NodeState:
    """The state of the node of this configuration. The caller closes the database.

    Raises:
        StateError: The database cannot be used.
        MissingExtra: What it needs is not installed.
    """
    url = config.state.url
    return NodeState(journal.parent, None if url is None else StateDatabase.open(url))


@contextmanager
def opened_state(config: Config, journal: Path) -> Iterator[NodeState]:
    """Opens the state, as `state_of` does, until the block ends."""
    state = state_of(config, journal)
    try:
        yield state
    finally:
        if state.database is not None:
            state.database.close()


@contextmanager
def state_at(journal: JournalPlace) -> Iterator[NodeState]:
    """The state that a journal is part of, until the block ends: what lies beside its file, or the database it is in.

    Raises:
        StateError: The database cannot be used.
        MissingExtra: What it needs is not installed.
    """
    if not isinstance(journal, StateUrl):
        yield NodeState(journal.parent)
        return
    with closing(StateDatabase.open(journal)) as database:
        yield NodeState(Path(), database)
