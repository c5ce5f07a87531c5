import pytest
from reports.browser import Browser, find_browser


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    program = find_browser()
    if program is None:
        pytest.skip("no chromium on this machine: the page was not tried in a browser")
    with Browser(program, tmp_path_factory.mktemp("browser") / "profile") as opened:
        yield opened
