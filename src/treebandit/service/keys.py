"""Keys with roles; the store has only their hashes."""

from __future__ import annotations

import hashlib
import re
import secrets
from collections.abc import Sequence
from typing import Literal, NamedTuple, get_args

from treebandit.errors import ParameterError
from treebandit.service.database import Connection
from treebandit.service.store import Store

Role = Literal["decide", "reward", "read", "admin"]
ROLES: tuple[Role, ...] = get_args(Role)


class Key(NamedTuple):
    """Who may do what. bandit: the only one that it is good for; None for all."""

    name: str
    roles: frozenset[str]
    bandit: str | None
    created: int = 0

    def may(self, role: str, bandit: str | None) -> bool:
        """Whether it is good for this; an admin may do everything.

        What is about all bandits (None) shows a key of one bandit only that one: see `sees`.
        """
        allowed = role in self.roles or "admin" in self.roles
        return allowed and (bandit is None or self.sees(bandit))

    def sees(self, bandit: str) -> bool:
        """Whether it may know of a bandit."""
        return self.bandit is None or self.bandit == bandit


#: Who asks where no keys are asked for.
ANYONE = Key("anyone", frozenset(ROLES), None)


class KeyRing:
    """The keys of a store; read again now and then, so that a new one is good on every replica."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._keys: dict[str, Key] = {}
        #: Whether requests need a key: from the first one on, also after the last one was removed.
        self.required = False
        self.refresh()

    def __len__(self) -> int:
        return len(self._keys)

    def refresh(self) -> None:
        """Read them."""
        rows = self._store.rows("SELECT hash, name, roles, bandit, created FROM keys")
        self._keys = {row[0]: Key(row[1], frozenset(row[2].split()), row[3], row[4]) for row in rows}
        if not self.required:
            self.required = bool(rows or self._store.rows("SELECT 1 FROM meta WHERE name = 'keys removed'"))

    def find(self, secret: str) -> Key | None:
        """The key with this secret. Looking a hash up by its value tells nothing of the secret by its time."""
        return self._keys.get(_hash(secret))

    def all(self) -> list[Key]:
        """All, by name."""
        return sorted(self._keys.values(), key=lambda key: key.name)

    def add(self, name: str, roles: Sequence[str], *, bandit: str | None = None) -> str:
        """Make a key; its secret, which is shown only now."""
        if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}", name):
            raise ParameterError(f"the key's name {name!r}; use letters, digits, '.', '_' and '-'")
        if wrong := [role for role in roles if role not in ROLES]:
            raise ParameterError(f"the role {wrong[0]!r}; choose from {', '.join(ROLES)}")
        if not roles:
            raise ParameterError(f"a key without a role; choose from {', '.join(ROLES)}")
        if any(key.name == name for key in self._keys.values()):
            raise ParameterError(f"there is a key {name!r}; remove it first, or choose another name")
        made = f"tb_{secrets.token_urlsafe(32)}"
        key = _hash(made), name, " ".join(sorted(set(roles))), bandit
        self._store.write(
            lambda connection: connection.rows(
                "INSERT INTO keys (hash, name, roles, bandit, created) VALUES (?, ?, ?, ?, ?)",
                (*key, self._store.clock.now(connection.wall())),
            )
        )
        self.refresh()
        return made

    def remove(self, name: str) -> None:
        """Revoke a key, on every replica within a second."""
        if all(key.name != name for key in self._keys.values()):
            raise ParameterError(f"there is no key {name!r}; `treebandit keys list` shows those there are")

        def work(connection: Connection) -> None:
            connection.rows("DELETE FROM keys WHERE name = ?", (name,))
            # A store that had keys is never open to all, whoever starts on it.
            connection.rows("INSERT INTO meta VALUES ('keys removed', 1) ON CONFLICT (name) DO NOTHING")

        self._store.write(work)
        self.refresh()


def _hash(secret: str) -> str:
    # Keys are random and long, so that a plain hash is as good as a slow one.
    return hashlib.sha256(secret.encode("utf-8", "surrogateescape")).hexdigest()
