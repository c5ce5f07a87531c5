"""What is refused because it is too long, too large or too much, and what is not."""

import random
from urllib.parse import quote

import pytest
from service.served import Served

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
