"""Numbers of an evaluation as text: as many decimals as value and interval need."""

import io

import pytest
from rich.console import Console

from treebandit.evaluation import DecisionLog, evaluate
from treebandit.reports import print_evaluation, write_evaluation_page
from treebandit.reports.evaluation_terminal import numbers


@pytest.mark.parametrize(
    ("values", "shown"),
    [
        ((0.5, 0.4, 0.6), ["0.5000", "0.4000", "0.6000"]),
        ((3e-5, 1e-5, 5e-5), ["0.0000300", "0.0000100", "0.0000500"]),
        ((0.5, 0.499999, 0.500001), ["0.5000000", "0.4999990", "0.5000010"]),
        ((-2e-6, -3e-6, 0.0), ["-0.00000200", "-0.00000300", "0.00000000"]),
        ((23.456, 20.0, 27.0), ["23.46", "20.00", "27.00"]),
        ((123456.7, 123450.0, 123463.0), ["123,457", "123,450", "123,463"]),
        ((3.14159e-20,), ["3.142e-20"]),
        ((2e18,), ["2e+18"]),
        ((0.0, 0.0, 0.0), ["0.0000"] * 3),
        ((0.25, float("nan"), float("inf")), ["0.2500", "–", "–"]),
    ],
)
def test_decimals_follow_the_scale_of_value_and_interval(values, shown):
    assert numbers(*values) == shown


@pytest.fixture(scope="module")
def rare():
    records = [
        {"id": str(n), "arms": ["a", "b"], "chosen": [n % 2], "probability": 0.5, "reward": 3e-5 * (n % 4)}
        for n in range(400)
    ]
    return evaluate(DecisionLog.from_records(records), ["arm:a"], estimators=("ips",))


def test_rare_rewards_are_told_in_the_terminal_and_on_the_page(rare, tmp_path):
    console = Console(file=io.StringIO(), width=120)
    print_evaluation(rare, console)
    text = console.file.getvalue()
    assert "mean reward 0.0000450" in text
    assert "0.0000300 [0.0000" in " ".join(text.split())
    page = write_evaluation_page(rare, tmp_path / "page.html").read_text(encoding="utf-8")
    assert page.count("0.0000300 [0.0000") >= 2, "tooltips of the estimate and of the arm"
    assert "mean reward of the log: 0.0000450" in page
