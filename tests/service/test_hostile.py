"""Bad input never is a fault of the service: schemathesis over the document, and malformed bodies."""

import json
import random

import pytest
import schemathesis
from hypothesis import HealthCheck, settings
from service.served import Served

from treebandit.service.app import OPERATIONS
from treebandit.service.openapi import document

DOCUMENT = document(OPERATIONS)
schema = schemathesis.openapi.from_dict(DOCUMENT)


@pytest.fixture(scope="module")
def served(tmp_path_factory):
    with Served(f"sqlite:///{tmp_path_factory.mktemp('hostile')}/store.db") as made:
        made.make("shop")
        made.decide("known")
        made.until(lambda: made.http.get("/health/ready").status_code == 200, 240)
        yield made


# It has no way to write lines of JSON.
@schema.exclude(path="/v1/bandits/{name}/rewards").parametrize()
@settings(max_examples=8, deadline=None, suppress_health_check=list(HealthCheck), derandomize=True)
def test_every_operation_answers_as_its_document_says(case, served):
    if "name" in case.path_parameters and case.body is not None:
        case.path_parameters["name"] = "shop"
    answer = case.call(base_url=served.url)
    assert answer.status_code < 500 or answer.status_code == 503, answer.text
    case.validate_response(
        answer,
        excluded_checks=[
            schemathesis.checks.unsupported_method,
            schemathesis.checks.positive_data_acceptance,
            schemathesis.checks.ignored_auth,
            schemathesis.checks.negative_data_rejection,
            schemathesis.checks.missing_required_header,
            schemathesis.checks.use_after_free,
            schemathesis.checks.ensure_resource_availability,
        ],
    )


def broken(chance, body):
    """A body with something wrong in it, or not; as bytes."""
    text = json.dumps(body)
    kind = chance.randrange(7)
    if kind == 0:
        place = chance.randrange(len(text))
        return (text[:place] + chance.choice('{}[]",:\\\x00e9-') + text[place + 1 :]).encode()
    if kind == 1:
        return text[: chance.randrange(len(text))].encode()
    if kind == 2:
        data = bytearray(text.encode())
        for _ in range(3):
            data[chance.randrange(len(data))] = chance.randrange(256)
        return bytes(data)
    values = (
        None,
        True,
        -1,
        1e308,
        10**400,
        "",
        "x" * 300,
        [],
        {},
        [[]],
        {"a": {"b": [{}]}},
        "\ud800",
        "\x00",
        0.5,
    )
    key = chance.choice([*body, "new", "", "\x00"])
    value = chance.choice(values)
    if kind == 3:
        return json.dumps({**body, key: value}).encode("utf-8", "surrogatepass")
    if kind == 4:
        return json.dumps({**body, "context": {key: value, "x": value}}).encode("utf-8", "surrogatepass")
    if kind == 5:
        return json.dumps({**body, "arms": [value, "a"]}).encode("utf-8", "surrogatepass")
    return json.dumps(value).encode("utf-8", "surrogatepass")


@pytest.mark.slow
def test_a_thousand_malformed_bodies(served):
    chance = random.Random(0)
    served.make("market")
    served.decide("known", name="market")
    decision = {
        "id": "d",
        "context": {"x": 1.0, "city": "rome"},
        "arms": ["a", {"name": "b", "features": {"p": 1}}],
    }
    rank = {"contextFeatures": [{"x": 1}], "actions": [{"id": "a", "features": [{"p": 1}]}], "eventId": "e"}
    cases = [
        ("POST", "/v1/bandits/market/decisions", decision),
        ("POST", "/v1/bandits/market/decisions:batch", {"decisions": [decision]}),
        ("POST", "/v1/bandits/market/decisions/known/reward", {"value": 1.0, "key": "k"}),
        ("POST", "/v1/bandits/market/rewards", {"id": "known", "value": 1.0}),
        ("PUT", "/v1/bandits/another", {"wait": 5, "agent": {"class": "LinUCB"}}),
        ("PATCH", "/v1/bandits/market", {"floor": 0.1, "wait": 5}),
        ("PUT", "/v1/bandits/market/model", {"a": 1}),
        ("POST", "/v1/bandits/market/model/rollback", {"version": 1}),
        ("POST", "/v1/bandits/market/erasures", {"ids": ["none"]}),
        ("POST", "/personalizer/v1.0/rank", rank),
        (
            "POST",
            "/personalizer/v1.0/multislot/rank",
            {**rank, "slots": [{"id": "s", "baselineAction": "a"}]},
        ),
        ("PUT", "/personalizer/v1.0/configurations/service", {"rewardWaitTime": "PT1M", "defaultReward": 0}),
    ]
    statuses = {}
    for _ in range(1000):
        method, path, body = chance.choice(cases)
        data = broken(chance, body)
        answer = served.http.request(method, path, content=data)
        statuses[answer.status_code] = statuses.get(answer.status_code, 0) + 1
        assert answer.status_code < 500, (method, path, data, answer.text)
        if answer.status_code >= 400 and "rewards" not in path:
            assert set(answer.json()) == {"error", "request_id"}, answer.text
    assert statuses[400] > 400
    assert served.decide(name="market", context={})["arm"]


def test_strange_paths(served):
    for path in (
        "/v1/bandits/%00",
        "/v1/bandits/%ff",
        "/v1/bandits/shop/decisions/%00/reward",
        "/v1/bandits/shop/decisions/%F0%9F%98%80/reward",
        "/v1/bandits/shop/decisions/a%2Fb/reward",
        "/v1/bandits/" + "x" * 5000,
        "/v1/bandits/shop/log?cursor=-1&limit=99999999999999999999",
        "/v1/bandits/shop/log?since=%00",
        "/personalizer/v1.0/events/%00/reward",
        "/assets/../../../etc/passwd",
        "/assets/%2e%2e/%2e%2e/etc/passwd",
        "//",
    ):
        for method in ("GET", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "HEAD"):
            answer = served.http.request(method, path, json={"value": 1.0} if method == "POST" else None)
            assert answer.status_code < 500 or answer.status_code == 501, (method, path, answer.text)
