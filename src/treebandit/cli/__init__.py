"""The command line, thin: one file per command; what it does lives in the packages below."""

from __future__ import annotations

import sys
from typing import Annotated

from treebandit import __version__
from treebandit.errors import MissingExtraError, TreebanditError

try:
    import typer
except ImportError as error:
    raise SystemExit(str(MissingExtraError("typer", "experiments"))) from error

from treebandit.cli import data, evaluate, report, roads, run, serve, warm_up
from treebandit.cli.output import replace_unwritable

__all__ = ["app", "main"]

app = typer.Typer(
    help="Contextual bandits with tree ensembles: studies, reports, off-policy evaluation, a decision service.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)
app.command()(run.run)
app.command()(report.report)
app.command()(evaluate.evaluate)
app.command()(data.data)
app.add_typer(roads.app, name="roads")
app.command()(serve.serve)
app.add_typer(serve.keys, name="keys")
app.command()(warm_up.warm_up)


def main() -> None:
    """Run the command line; what cannot be done is one sentence, with exit code 2."""
    replace_unwritable()
    try:
        app()
    except TreebanditError as error:
        message = str(error)
    except OSError as error:
        message = f"{error.filename or 'a file'}: {error.strerror or error}"
    else:
        return
    typer.echo(f"treebandit: {message}", err=True)
    sys.exit(2)


def _show_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"treebandit {__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool,
        typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version and exit."),
    ] = False,
) -> None:
    """Options of the whole program."""
