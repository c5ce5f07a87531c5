"""Contexts as columns, against the flat ones that they stand for."""

import numpy as np
import pytest

from treebandit.errors import LogError
from treebandit.evaluation import DecisionLog, batches, evaluate
from treebandit.evaluation.batches import CONTEXTS, ArmCodes, flat_batches
from treebandit.evaluation.contexts import ContextLayout


def columns(contexts, arm_contexts=None):
    """Name -> values of the columns that contexts become."""
    own = arm_contexts or [None] * len(contexts)
    log = DecisionLog.from_records(
        {"id": str(number), "arms": ["a"], "chosen": [0], "probability": 1.0, "context": context}
        | ({} if each is None else {"arm_contexts": [each]})
        for number, (context, each) in enumerate(zip(contexts, own, strict=True))
    )
    layout = ContextLayout()
    (batch,) = flat_batches(log, ArmCodes(), columns=CONTEXTS)
    values = layout.encode(batch).T
    return dict(zip(layout.columns.names, values, strict=True))


NO = None
SHAPES = {
    "an object or a number": (
        [{"d": {"os": 1, "w": 5}}, {"d": 2}, {"d": None}, {}],
        {"d.os": [1, NO, NO, NO], "d.w": [5, NO, NO, NO], "d": [NO, 2, NO, NO]},
    ),
    "an object or a list": (
        [{"d": {"w": 5}}, {"d": [7, 8]}],
        {"d.w": [5, NO], "d.0": [NO, 7], "d.1": [NO, 8]},
    ),
    "deep inside": (
        [{"u": {"d": {"w": 5}}}, {"u": {"d": 1}}, {"u": 3}],
        {"u.d.w": [5, NO, NO], "u.d": [NO, 1, NO], "u": [NO, NO, 3]},
    ),
    "in a list": (
        [{"d": [1, {"w": 5}]}, {"d": [{"w": 6}]}],
        {"d.0": [1, NO], "d.1.w": [5, NO], "d.0.w": [NO, 6]},
    ),
    "numbers or none": ([{"d": 1}, {"d": None}], {"d": [1, NO]}),
}


@pytest.mark.parametrize("shape", SHAPES)
def test_values_of_several_shapes_are_columns_of_their_own(shape):
    given, expected = SHAPES[shape]
    for found in (columns(given), columns([{}] * len(given), given)):
        found = {name: values for name, values in found.items() if not np.isnan(values).all()}
        assert found.keys() == expected.keys()
        for name, values in expected.items():
            np.testing.assert_array_equal(found[name], np.array(values, np.float32), name)


def test_texts_beside_objects_are_categories():
    found = columns([{"d": {"os": "x"}}, {"d": "phone"}, {"d": "desk"}, {"d": "phone"}])
    assert found["d"][1] == found["d"][3] != found["d"][2]
    assert np.isnan(found["d"][0])
    assert found["d.os"][0] == 0


def test_what_is_no_json_is_named():
    log = DecisionLog.from_records([{"id": "1", "arms": ["a"], "chosen": [0], "probability": 1.0}])
    frame = log.frame.collect().with_columns(context=np.array(["{"], object).astype(str))
    (batch,) = flat_batches(DecisionLog(frame.lazy()), ArmCodes(), columns=CONTEXTS)
    with pytest.raises(LogError, match="cannot be read as JSON"):
        ContextLayout().encode(batch)


def test_batches_with_contexts_of_many_arms_are_short(monkeypatch):
    """What they hold grows with the candidates; and what is found in them does not depend on their length."""
    random = np.random.default_rng(0)
    chosen = random.integers(5, size=300).tolist()
    log = DecisionLog.from_records(
        {
            "id": str(number),
            "arms": list("abcde"),
            "chosen": [row],
            "probabilities": [0.2] * 5,
            "probability": 0.2,
            "arm_contexts": [{"price": float(each)} for each in random.normal(size=5)],
            "reward": float(random.random() < 0.1 * row),
        }
        for number, row in enumerate(chosen)
    )
    whole = evaluate(log, ["uniform"])["uniform"]
    monkeypatch.setattr(batches, "_MOST_CANDIDATES", 100)
    lengths = [len(each) for each in flat_batches(log, ArmCodes(), columns=CONTEXTS)]
    assert lengths == [20] * 15
    assert [len(each) for each in flat_batches(log, ArmCodes())] == [300]
    parts = evaluate(log, ["uniform"])["uniform"]
    for name, estimate in whole.estimates.items():
        np.testing.assert_allclose(parts[name].values, estimate.values, atol=1e-12)
