"""`treebandit evaluate`: how good other policies would have been on a decision log."""

from __future__ import annotations

import json as json_module
from typing import Annotated, Any

import typer

from treebandit.cli.output import Page, print_json, writable_file
from treebandit.errors import ParameterError


def evaluate(
    log: Annotated[
        str,
        typer.Argument(
            metavar="LOG",
            help="A decision log: .parquet, .ndjson, a folder of parts, .dsjson, .vw, Open Bandit .csv; or hillstrom, "
            "zozo:bts/men.",
        ),
    ],
    policy: Annotated[
        list[str],
        typer.Option(
            metavar="POLICY", help="uniform, logging, arm:NAME, or the file of a saved agent; repeatable."
        ),
    ],
    estimator: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME", help="ips, snips, dr and so on, or all; repeatable. Default: ips, snips, dr."
        ),
    ] = None,
    interval: Annotated[str, typer.Option(help="normal, bootstrap or time-uniform.")] = "normal",
    level: Annotated[float, typer.Option(help="Probability of the intervals.")] = 0.95,
    form: Annotated[
        str | None,
        typer.Option(
            "--format", help="treebandit, open-bandit, dsjson or vw-text, if the file's name does not tell."
        ),
    ] = None,
    duplicates: Annotated[
        str, typer.Option(help="Decisions with the id of an earlier one: refuse, or keep the first.")
    ] = "refuse",
    missing_reward: Annotated[
        float | None,
        typer.Option(metavar="R", help="What decisions without a reward count as; else left out."),
    ] = None,
    reward_range: Annotated[
        tuple[float, float] | None,
        typer.Option(
            metavar="LEAST MOST",
            help="Possible rewards, for time-uniform intervals; else those of the log, 0 and 1.",
        ),
    ] = None,
    floor: Annotated[float, typer.Option(help="Share of an agent's decisions left to chance.")] = 0.01,
    anyway: Annotated[
        bool, typer.Option("--anyway", help="Show numbers without enough evidence, too.")
    ] = False,
    json: Annotated[bool, typer.Option("--json", help="Everything as JSON.")] = False,
    html: Page = None,
) -> None:
    """Estimate what policies would have earned on a decision log.

    Diagnostics come before numbers: below an effective sample size of 30 the answer is that there is not enough
    evidence, and the exit code is 3 if that is so for every policy.
    """
    page = None if html is None else writable_file(html, "--html")
    # Public names, unlike modules, say which extra is missing; imported here, they do before anything is evaluated.
    from treebandit import evaluation as package
    from treebandit import reports
    from treebandit.evaluation import open_log
    from treebandit.evaluation.opening import FORMATS

    if page is not None:
        from treebandit.reports import write_evaluation_page
    if form is not None and form not in FORMATS:
        raise ParameterError(f"--format is {form!r}; give one of {', '.join(FORMATS)}")
    settings: dict[str, Any] = {"interval": interval, "level": level, "anyway": anyway, "floor": floor}
    if missing_reward is not None:
        settings["missing_reward"] = missing_reward
    if reward_range is not None:
        settings["reward_range"] = reward_range
    if estimator:
        named = [each for name in estimator for each in (package.ESTIMATORS if name == "all" else [name])]
        settings["estimators"] = tuple(dict.fromkeys(named))
    opened = open_log(log, form=form, duplicates=duplicates)  # type: ignore[arg-type]
    found = package.evaluate(opened, policy, **settings)
    if json:
        print_json(json_module.dumps(found.as_dict(), indent=1, ensure_ascii=False, allow_nan=False))
    else:
        from rich.console import Console

        reports.print_evaluation(found, Console())
    if page is not None:
        typer.echo(f"page: {write_evaluation_page(found, page)}", err=json)
    if all(each.refusal is not None for each in found.policies) and not anyway:
        raise typer.Exit(3)
