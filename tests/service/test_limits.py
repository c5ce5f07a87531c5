"""What is refused because it is too long, too large or too much, and what is not."""

import json
import random
import re
from urllib.parse import quote

import pytest
from service.served import Served

from treebandit.service.app import OPERATIONS
from treebandit.service.deciding import hashed
from treebandit.service.entries import NewDecision
from treebandit.service.log import Group
from treebandit.service.openapi import document

DOCUMENT = document(OPERATIONS)
#: Four bytes in UTF-8.
RARE = "\U00020bb7"


@pytest.fixture
def store_served(url):
    with Served(url, learner="none") as made:
        made.make()
        yield made


def test_ids_slots_and_keys_that_are_taken_fit_the_index_of_the_store(store_served):
    served = store_served
    chance = random.Random(0)  # what repeats itself would be compressed
    id, slot, key = ("".join(chr(chance.randrange(0x4E00, 0x9FA5)) for _ in range(256)) for _ in range(3))
    served.decide(id, slots=[{"id": slot}])
    assert served.reward(quote(id), slot=slot, key=key)["status"] == "counted"
    refused = [
        served.decide(RARE * 193, status=400),
        served.decide(slots=[{"id": RARE * 193}], status=400),
        served.reward(quote(RARE * 193), status=400),
        served.reward("d", slot=RARE * 193, status=400),
        served.reward("d", key=RARE * 193, status=400),
        served.call("POST", f"/v1/bandits/shop/decisions/{quote(RARE * 193)}/activate", status=400),
    ]
    assert all("772 bytes in UTF-8; send at most 768" in each["error"]["message"] for each in refused)
    rank = {"eventId": RARE * 193, "actions": [{"id": "a"}]}
    served.call("POST", "/bandits/shop/personalizer/v1.0/rank", rank, 400)
    line = f'{{"id": "{RARE * 193}", "value": 1}}'
    assert "bytes" in str(served.call("POST", "/v1/bandits/shop/rewards", content=line, status=400))
    assert served.decide(RARE * 192)["id"] == RARE * 192


def test_no_name_ends_in_a_newline(store_served):
    served = store_served
    served.decide("d\n", status=400)
    for more in (
        {"arms": ["a", "b\n"]},
        {"arms": [{"name": "a\n"}]},
        {"subject": "me\n"},
        {"slots": [{"id": "s\n"}]},
        {"excluded": ["a\n"]},
    ):
        served.decide(status=400, **more)
    for more in ({"key": "k\n"}, {"slot": "s\n"}):
        served.reward("d", status=400, **more)
    served.reward("d%0A", status=404)  # no path has one
    served.call("POST", "/v1/bandits/shop/rewards", content=b'{"id": "d\\n", "value": 1}', status=400)
    action = {"actions": [{"id": "a\n"}]}
    served.call("POST", "/bandits/shop/personalizer/v1.0/rank", action, 400)
    # What older versions took can still be erased.
    new = NewDecision("old\n", b"{}", "a", 0.5, 0, False, 0, subject=hashed("me\n"))
    served.store.append_now(Group(served.store.bandit("shop").id, [new, new._replace(id="older\n")]))
    for which in ({"ids": ["old\n"]}, {"subject": "me\n"}):
        assert served.call("POST", "/v1/bandits/shop/erasures", which)["erased"] == 1
    served.call("POST", "/v1/bandits/shop/erasures", {"ids": ["old\n\n"]}, 400)


def test_patterns_of_the_document_have_no_newline_at_their_end():
    patterns = set(re.findall(r'"pattern":("(?:[^"\\]|\\.)*")', json.dumps(DOCUMENT, separators=(",", ":"))))
    assert len(patterns) > 3
    for pattern in map(json.loads, patterns):
        assert re.search(pattern, "0a"), pattern
        assert not re.search(pattern, "0a\n") or "\\n?" in pattern, pattern
