"""`treebandit warm-up`."""

from __future__ import annotations

import time
from typing import Annotated

import typer


def warm_up(
    agents: Annotated[
        list[str] | None, typer.Argument(metavar="AGENT", help="Such as TETS or LinUCB. [Bandit]")
    ] = None,
) -> None:
    """Compile what an agent needs, so that the first decision does not have to wait for it.

    For images and read-only machines. Compiled code goes beside the package, or where NUMBA_CACHE_DIR says, and serves
    processors of the same kind.
    """
    import treebandit
    from treebandit import registry

    for name in agents or ["Bandit"]:
        began = time.perf_counter()
        treebandit.warm_up(registry.build({"class": name}, kinds=["agent"], where="warm-up"))
        typer.echo(f"{name}: ready after {time.perf_counter() - began:.1f} s")
