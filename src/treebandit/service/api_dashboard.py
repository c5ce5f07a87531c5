"""The dashboard: its page, and what the page asks for again and again."""

from __future__ import annotations

from functools import cache
from importlib import resources

from starlette.requests import Request
from starlette.responses import Response

from treebandit.errors import InputError
from treebandit.service.dashboard import SPANS, Dashboards
from treebandit.service.dashboard_bodies import DashboardAnswer
from treebandit.service.exchange import Operations, bandit, json_answer, runtime
from treebandit.service.refusals import Refused

OPERATIONS = Operations()
_FILES = {"page.js": "text/javascript", "charts.js": "text/javascript", "page.css": "text/css"}
#: Nothing from elsewhere, no script or style within the page: what a name holds can never run.
_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src data:; base-uri 'none'; "
    "form-action 'none'; frame-ancestors 'none'"
)
_HEADERS = {"Content-Security-Policy": _POLICY, "Referrer-Policy": "no-referrer", "Cache-Control": "no-cache"}


@OPERATIONS.add("GET", "/", "page", gives={200: "text/html"}, listed=False)
async def page(request: Request) -> Response:
    """The page, the same for everybody: what it shows comes by the API, with the key of its reader."""
    return Response(_text("page.html"), 200, _HEADERS, "text/html")


@OPERATIONS.add("GET", "/dashboard/{file}", "pageFile", gives={200: "*/*"}, listed=False)
async def file(request: Request) -> Response:
    """A script or a style of the page."""
    name = str(request.path_params["file"])
    if name not in _FILES:
        raise Refused(404, "NotFound", "the dashboard has no such file")
    return Response(_text(name), 200, _HEADERS, _FILES[name])


@OPERATIONS.add(
    "GET",
    "/v1/bandits/{name}/dashboard",
    "dashboard",
    "read",
    gives={200: DashboardAnswer},
    query={"span": ({"type": "string", "enum": list(SPANS)}, "how far back; 24h where left out")},
)
async def dashboard(request: Request) -> Response:
    """What the dashboard shows: rewards against the holdout, arms, exploration, alerts."""
    row = await bandit(request)
    span = request.query_params.get("span", "24h")
    if span not in SPANS:
        raise InputError(f"span={span[:40]!r}; choose {', '.join(SPANS)}")
    state = request.app.state
    if not hasattr(state, "dashboards"):
        state.dashboards = Dashboards(runtime(request))
    return json_answer(await state.dashboards.look(row, span))


@cache
def _text(name: str) -> str:
    """A file of the page; the style is that of the reports, and what the dashboard adds."""
    package = resources.files("treebandit")
    own = (package / "service" / "dashboard_page" / name).read_text(encoding="utf-8")
    if name != "page.css":
        return own
    return (package / "reports" / "template" / "page.css").read_text(encoding="utf-8") + own
