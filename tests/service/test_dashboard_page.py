"""The dashboard and the page of the API in a real browser, against a running service."""

import json

import pytest
from reports.browser import Browser, find_browser
from service.served import Served

from treebandit.service.config import BanditConfig, checked
from treebandit.service.keys import KeyRing

EVIL = "<img src=x onerror=window.evil=1><svg onload=window.evil=1>'"


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    program = find_browser()
    if program is None:
        pytest.skip("no chromium on this machine: the dashboard was not tried in a browser")
    with Browser(program, tmp_path_factory.mktemp("browser") / "profile", width=1400) as opened:
        yield opened


@pytest.fixture
def served(tmp_path):
    with Served(f"sqlite:///{tmp_path}/store.db") as made:
        yield made


def visit(browser, served, path="/"):
    browser.call("Page.navigate", url="about:blank")
    browser.events.clear()
    browser.call("Page.navigate", url=f"{served.url}{path}")


def text(browser, selector="body"):
    return browser.evaluate(f"document.querySelector({json.dumps(selector)}).innerText")


def complaints(browser, served):
    """What went wrong, and what was asked for elsewhere than at the service."""
    return [each for each in browser.complaints() if not each.startswith(f"asked for {served.url}/")]


def fill(served, name, count, **request):
    for number in range(count):
        id = f"{name}-{number}"
        served.decide(id, name=name, **request)
        served.reward(id, float(number % 2), name=name)


def test_an_empty_service_shows_the_way_and_fills_by_itself(browser, served):
    visit(browser, served)
    browser.wait_for("document.body?.dataset.drawn")
    assert "No bandits yet" in text(browser)
    assert f"curl -X PUT '{served.url}/v1/bandits/shop'" in text(browser)
    browser.evaluate("window.loaded = 'once'")
    served.make("shop", wait=0.2, holdout=0.5)
    browser.wait_for("document.body.innerText.includes('No decisions of shop yet')")
    assert f"curl -X POST '{served.url}/v1/bandits/shop/decisions'" in text(browser)
    fill(served, "shop", 12)
    browser.wait_for("document.getElementById('foot').textContent.includes('12 decisions')")
    assert "Not enough evidence yet" in text(browser, "#headline")
    browser.wait_for(
        "document.getElementById('versions-note').textContent.includes('has learned the whole log')"
    )
    fill_more = [served.decide(f"more-{number}") for number in range(5)]
    assert len(fill_more) == 5
    browser.wait_for("document.getElementById('foot').textContent.includes('17 decisions')")
    assert browser.evaluate("window.loaded") == "once"
    assert complaints(browser, served) == []


def test_three_bandits_dark_colours_and_a_narrow_window(browser, served):
    for name in ("alpha", "beta", "gamma"):
        served.make(name, wait=0.1, holdout=0.5)
    fill(served, "alpha", 3)
    fill(served, "gamma", 8, arms=["left", "right"])
    visit(browser, served)
    browser.wait_for("document.querySelectorAll('#bandits button').length === 3")
    browser.wait_for("document.getElementById('foot').textContent.includes('3 decisions')")
    browser.click("#bandits button:nth-child(3)")
    browser.wait_for("document.getElementById('foot').textContent.includes('8 decisions')")
    assert (
        browser.evaluate("document.querySelector('#bandits button[aria-pressed=true]').textContent")
        == "gamma"
    )
    assert browser.evaluate("location.hash") == "#gamma"
    visit(browser, served, "/#beta")
    browser.wait_for("document.body?.innerText.includes('No decisions of beta yet')")
    back = "getComputedStyle(document.body).backgroundColor"
    assert browser.evaluate(back) == "rgb(255, 255, 255)"
    browser.resize(1400, 900, dark=True)
    assert browser.evaluate(back) == "rgb(21, 24, 29)"
    browser.resize(390, 800)
    browser.click("#bandits button:nth-child(3)")
    browser.wait_for("!document.getElementById('board').hidden")
    assert browser.evaluate("document.documentElement.scrollWidth") <= 390
    browser.resize(1400, 900)
    assert complaints(browser, served) == []


def test_what_is_doubtful_about_other_policies_is_shown(browser, served):
    served.make("shop", wait=0.2, reward_default=None, mode="apprentice", agent={"class": "Uniform"})
    for number in range(80):
        served.decide(f"d{number}", baseline="ab"[number % 2], arms=["a", "b"])
        served.reward(f"d{number}", float(number % 3))
    visit(browser, served, "/#shop")
    browser.wait_for("document.querySelector('#others details') !== null")
    shown = text(browser, "#others")
    assert "uniform: doubtful" in shown or "uniform: not enough evidence" in shown
    assert complaints(browser, served) == []


def test_names_are_shown_and_never_run(browser, served):
    served.store.put_bandit(EVIL, lambda before: checked(BanditConfig(wait=0.1, description=EVIL)))
    served.make("shop", wait=0.1, description=EVIL)
    fill(served, "shop", 6, arms=[EVIL, "b"], context={EVIL: 1.0, "more": [EVIL]})
    visit(browser, served, "/#shop")
    browser.wait_for("document.getElementById('foot').textContent.includes('6 decisions')")
    assert EVIL in text(browser, "#bandits")
    assert EVIL in text(browser, "#headline")
    assert browser.evaluate("typeof window.evil") == "undefined"
    assert browser.evaluate("document.querySelectorAll('main img, main script, nav img').length") == 0
    browser.click("#bandits button:nth-child(1)")
    browser.wait_for("document.querySelector('#bandits button').getAttribute('aria-pressed') === 'true'")
    assert browser.evaluate("typeof window.evil") == "undefined"
    # The policy of the page holds where a text would slip through.
    browser.evaluate("document.body.insertAdjacentHTML('beforeend', '<img src=x onerror=\"window.evil=2\">')")
    assert browser.evaluate("new Promise(r => setTimeout(() => r(typeof window.evil), 300))") == "undefined"


def test_where_keys_are_on_the_page_asks_for_one(browser, tmp_path):
    url = f"sqlite:///{tmp_path}/keys.db"
    with Served(url) as served:
        served.make("shop", wait=0.1)
        fill(served, "shop", 2)
        ring = KeyRing(served.store)
        secret = ring.add("eyes", ["read"])
        blind = ring.add("hands", ["decide"])
        served.until(lambda: served.http.get("/v1/bandits").status_code == 401)
        visit(browser, served)
        browser.wait_for("document.getElementById('ask') && !document.getElementById('ask').hidden")
        for key in (blind, secret):
            browser.evaluate(f"document.getElementById('key').value = {json.dumps(key)}")
            browser.click("#ask button")
            if key == blind:
                browser.wait_for("document.getElementById('problem').textContent.includes('does not do')")
        browser.wait_for("document.getElementById('foot').textContent.includes('2 decisions')")
        assert browser.evaluate("localStorage.length") == 0
        assert secret not in browser.evaluate("location.href + document.cookie")
        reply = [each for each in complaints(browser, served) if "401" not in each and "403" not in each]
        assert reply == []
        browser.evaluate("sessionStorage.clear()")


def test_the_page_of_the_api_shows_all_operations_and_tries_one(browser, served):
    operations = [each for path in served.call("GET", "/openapi.json")["paths"].values() for each in path]
    visit(browser, served, "/docs")
    browser.wait_for(f"document.querySelectorAll('.opblock').length === {len(operations)}")
    for button in ("decide] .opblock-summary-control", "live] .opblock-summary-control", "live] .try-out button",
                   "live] button.execute"):  # fmt: skip
        found = f"document.querySelector('[id$=-{button}')"
        browser.wait_for(f"{found} !== null")
        browser.evaluate(f"{found}.click()")  # it may be moving, as what was opened before grows
    browser.wait_for("document.querySelector('[id$=-decide]').innerText.includes('baseline_probability')")
    browser.wait_for("document.querySelector('[id$=-live] .live-responses-table')?.innerText.includes('ok')")
    assert complaints(browser, served) == []
