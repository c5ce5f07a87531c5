"""`treebandit serve` and `treebandit keys`: the decision service and who may use it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated

import typer

from treebandit.errors import MissingExtraError, ParameterError

_STORE = "sqlite:///treebandit.db"
Url = Annotated[
    str, typer.Option(metavar="URL", envvar="TREEBANDIT_STORE", help="sqlite:///file.db or postgresql://...")
]

keys = typer.Typer(
    help="Keys of the decision service; the store has only their hashes.", no_args_is_help=True
)


def serve(
    store: Url = _STORE,
    host: Annotated[
        str, typer.Option(metavar="ADDRESS", help="To listen on; other than this machine only with keys.")
    ] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, metavar="N", help="To listen on; 0: any.")] = 8787,
    learner: Annotated[
        str, typer.Option(metavar="PLACE", help="Where to learn: thread, process, or none (others do).")
    ] = "process",
    rate: Annotated[
        float | None,
        typer.Option(min=0.1, metavar="N", help="Requests per second and key; no limit by default."),
    ] = None,
    max_body: Annotated[int, typer.Option(min=1024, metavar="BYTES", help="Of one request.")] = 1 << 20,
    max_arms: Annotated[int, typer.Option(min=1, metavar="N", help="Of one decision.")] = 1000,
    max_features: Annotated[int, typer.Option(min=1, metavar="N", help="Of one row.")] = 2000,
    demo: Annotated[
        bool, typer.Option("--demo", help="Visitors come to a shop at once: a day in a minute.")
    ] = False,
    log_level: Annotated[str, typer.Option(metavar="LEVEL", help="debug, info, warning or error.")] = "info",
) -> None:
    """Serve decisions over HTTP: API at /v1, its documentation at /docs, the dashboard at /."""
    with _service_extra():
        from treebandit.service.runtime import Limits
        from treebandit.service.serve import serve as run
    if learner not in ("thread", "process", "none"):
        raise ParameterError(f"--learner {learner}; choose thread, process or none")
    if log_level not in ("debug", "info", "warning", "error"):
        raise ParameterError(f"--log-level {log_level}; choose debug, info, warning or error")
    limits = Limits(rate=rate, body=max_body, candidates=max_arms, features=max_features)
    run(store, host=host, port=port, limits=limits, learner=learner, level=log_level, demo=demo)  # type: ignore[arg-type]


@keys.command("add")
def add(
    name: Annotated[str, typer.Argument(metavar="NAME", help="What to call the key in logs.")],
    role: Annotated[
        list[str], typer.Option(metavar="ROLE", help="decide, reward, read or admin; repeatable.")
    ],
    store: Url = _STORE,
    bandit: Annotated[str | None, typer.Option(metavar="NAME", help="Good for this bandit only.")] = None,
) -> None:
    """Make a key and print it; it is shown only now."""
    typer.echo(_ring(store).add(name, role, bandit=bandit))


@keys.command("list")
def show(store: Url = _STORE) -> None:
    """Show names and roles."""
    for key in _ring(store).all():
        typer.echo(f"{key.name}\t{' '.join(sorted(key.roles))}\t{key.bandit or 'all bandits'}")


@keys.command("remove")
def remove(
    name: Annotated[str, typer.Argument(metavar="NAME", help="Of the key.")], store: Url = _STORE
) -> None:
    """Revoke a key."""
    _ring(store).remove(name)


def _ring(url: str):  # type: ignore[no-untyped-def] # noqa: ANN202
    with _service_extra():
        from treebandit.service.keys import KeyRing
        from treebandit.service.store import Store
    return KeyRing(Store.open(url))


@contextmanager
def _service_extra() -> Iterator[None]:
    """Tell which library of the service is missing, and how to install it."""
    try:
        yield
    except MissingExtraError:
        raise
    except ImportError as error:
        raise MissingExtraError(error.name or "starlette", "service") from error
