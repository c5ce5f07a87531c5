"""What other policies would have earned: evaluations as jobs."""

from __future__ import annotations

import asyncio

from starlette.requests import Request
from starlette.responses import Response

from treebandit.service import jobs
from treebandit.service.exchange import Operation, bandit, body, json_answer, runtime
from treebandit.service.jobs import EvaluationRequest, JobAnswer, JobsAnswer
from treebandit.service.refusals import Refused


async def start(request: Request) -> Response:
    """Start an evaluation."""
    row = await bandit(request)
    asked = await body(request, EvaluationRequest)
    service = runtime(request)
    service.jobs.check(row, asked)
    number = await service.jobs.start(row, asked)
    found = await asyncio.to_thread(jobs.find, service.store, row, number)
    return json_answer(found[0], 202)


async def show(request: Request) -> Response:
    """One evaluation."""
    row = await bandit(request)
    number = str(request.path_params["job"])
    found = (
        [] if "\x00" in number else await asyncio.to_thread(jobs.find, runtime(request).store, row, number)
    )
    if not found:
        raise Refused(404, "EvaluationNotFound", f"there is no evaluation {number[:100]!r} of this bandit")
    return json_answer(found[0])


async def show_all(request: Request) -> Response:
    """All evaluations."""
    row = await bandit(request)
    return json_answer(JobsAnswer(await asyncio.to_thread(jobs.find, runtime(request).store, row)))


OPERATIONS = [
    Operation(
        "POST",
        "/v1/bandits/{name}/evaluations",
        start,
        "startEvaluation",
        "Estimate what other policies would have earned",
        "read",
        takes=EvaluationRequest,
        gives={202: JobAnswer},
        errors=(404,),
    ),
    Operation(
        "GET",
        "/v1/bandits/{name}/evaluations",
        show_all,
        "listEvaluations",
        "The newest evaluations",
        "read",
        gives={200: JobsAnswer},
        errors=(404,),
    ),
    Operation(
        "GET",
        "/v1/bandits/{name}/evaluations/{job}",
        show,
        "getEvaluation",
        "An evaluation and its result",
        "read",
        gives={200: JobAnswer},
        errors=(404,),
    ),
]
