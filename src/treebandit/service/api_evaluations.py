"""What other policies would have earned: evaluations as jobs."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import Response

from treebandit.service import jobs
from treebandit.service.exchange import Operations, bandit, body, from_store, json_answer, runtime
from treebandit.service.jobs import EvaluationRequest, JobAnswer, JobsAnswer
from treebandit.service.refusals import Refused

OPERATIONS = Operations()


@OPERATIONS.add(
    "POST",
    "/v1/bandits/{name}/evaluations",
    "startEvaluation",
    "read",
    takes=EvaluationRequest,
    gives={202: JobAnswer},
)
async def start(request: Request) -> Response:
    """Estimate what other policies would have earned, as a job; a 429 where too many wait."""
    row = await bandit(request)
    asked = await body(request, EvaluationRequest)
    service = runtime(request)
    service.jobs.check(asked)
    await from_store(request, service.jobs.check_models, row, asked)
    number = await service.jobs.start(row, asked)
    found = await from_store(request, jobs.find, service.store, row, number)
    return json_answer(found[0], 202)


@OPERATIONS.add(
    "GET", "/v1/bandits/{name}/evaluations/{job}", "getEvaluation", "read", gives={200: JobAnswer}
)
async def show(request: Request) -> Response:
    """An evaluation and its result."""
    row = await bandit(request)
    number = str(request.path_params["job"])
    found = (
        [] if "\x00" in number else await from_store(request, jobs.find, runtime(request).store, row, number)
    )
    if not found:
        raise Refused(404, "EvaluationNotFound", f"there is no evaluation {number[:100]!r} of this bandit")
    return json_answer(found[0])


@OPERATIONS.add("GET", "/v1/bandits/{name}/evaluations", "listEvaluations", "read", gives={200: JobsAnswer})
async def show_all(request: Request) -> Response:
    """The newest evaluations."""
    row = await bandit(request)
    return json_answer(JobsAnswer(await from_store(request, jobs.find, runtime(request).store, row)))
