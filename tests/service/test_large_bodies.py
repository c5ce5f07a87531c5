"""Readers of a log whose decisions are large: what they hold at once has a bound, whatever they look at."""

import msgspec
import pytest
from service.shop import Shop

from treebandit.service import erasure, export
from treebandit.service.dashboard import dashboard
from treebandit.service.dashboard_policies import other_policies
from treebandit.service.entries import DecisionBody, NewDecision
from treebandit.service.log import Group

SIZE, DECISIONS = 1 << 17, 300


@pytest.fixture
def shop(sqlite):
    """Decisions of 128 KiB each, mostly features of arms: 38 MiB in all."""
    made = Shop(sqlite, wait=0.0)
    features = [{"about": "x" * (SIZE // 2)}, {"about": "y" * (SIZE // 2)}]
    for start in range(0, DECISIONS, 50):
        entries = []
        for number in range(start, start + 50):
            chosen = number % 2
            body = DecisionBody({"x": number}, ["a", "b"], [chosen], 0.5, [0.5, 0.5], arm_contexts=features)
            data = msgspec.json.encode(body)
            entries.append(NewDecision(f"d{number}", data, "ab"[chosen], 0.5, 0, False, 0))
        sqlite.append_now(Group(made.row.id, entries))
    made.wait(1)
    return made


@pytest.fixture
def most(monkeypatch, shop):
    """The bytes of the largest answer that the store gave."""
    sizes = [0]
    session = shop.store.database.connect()
    kind = type(session)
    session.close()
    plain = kind.rows

    def watched(self, sql, values=()):
        found = plain(self, sql, values)
        sizes.append(sum(len(each) for row in found for each in row if isinstance(each, bytes)))
        return found

    monkeypatch.setattr(kind, "rows", watched)
    return lambda: max(sizes)


def test_a_page_of_the_log_ends_early(shop, most):
    found, cursor, pages = [], 0, 0
    while cursor is not None:
        page, cursor = export.records(shop.store, shop.now, after=cursor, limit=1000)
        found += [each["id"] for each in page]
        pages += 1
    assert found == [f"d{number}" for number in range(DECISIONS)]
    assert pages == 3
    assert most() <= 17 << 20


def test_an_erasure_reads_no_decision(shop, most):
    ids = [f"d{number}" for number in range(DECISIONS)]
    assert erasure.erase(shop.store, shop.row.id, ids=ids) == DECISIONS
    assert erasure.erase(shop.store, shop.row.id, ids=ids) == 0
    assert most() < SIZE


def test_the_dashboard_reads_a_little_at_a_time(shop, most):
    assert dashboard(shop.store, shop.now, 0).decisions == DECISIONS
    assert other_policies(shop.store, shop.now, ["a"]).decisions == DECISIONS
    assert most() <= 17 << 20
