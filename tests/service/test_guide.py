"""The commands and the code of docs/service.md and docs/tutorials/serving.md, against a running service."""

import json
import re
import shlex
from itertools import pairwise
from pathlib import Path

import pytest
from service.served import Served
from typer.testing import CliRunner

from treebandit.cli import app
from treebandit.errors import InputError
from treebandit.evaluation import DecisionLog

DOCS = Path(__file__).parents[2] / "docs"
PAGE = (DOCS / "service.md").read_text(encoding="utf-8")
TUTORIAL = (DOCS / "tutorials" / "serving.md").read_text(encoding="utf-8")


def send(served, command):
    """What a `curl` command of a page does; `-o` writes the answer into a file."""
    words = shlex.split(command)
    given = dict(pairwise(words))
    url = next(word for word in words if word.startswith("http"))
    answer = served.http.request(given.get("-X", "GET"), url, content=given.get("-d"))
    assert answer.status_code < 300, (command, answer.text)
    if "-o" in given:
        Path(given["-o"]).write_bytes(answer.content)
    return answer


def personalizer_events(count):
    """Events as Azure Personalizer logs them."""
    for number in range(count):
        chosen = number % 2
        actions = [
            {"_tag": name, "i": {"constant": 1, "id": name}, "j": [{"price": price}, {"taste": {"salt": 1}}]}
            for name, price in (("coffee", 2.0), ("tea", 2.5))
        ]
        context = [{"city": "rome", "device": {"os": "x"}}, {"device": {"width": 800}}]
        yield {
            "_label_cost": -float(chosen),
            "_label_probability": 0.9,
            "_label_Action": chosen + 1,
            "_labelIndex": chosen,
            "o": [{"v": float(chosen), "EventId": f"e{number}", "ActionTaken": False}],
            "Timestamp": "2024-05-01T10:00:00.0000000Z",
            "Version": "1",
            "EventId": f"e{number}",
            "a": [chosen + 1, 2 - chosen],
            "c": {"FromUrl": context, "_multi": actions},
            "p": [0.9, 0.1],
            "VWState": {"m": "model/1"},
        }


def test_start_create_decide_reward_look(tmp_path, capsys, monkeypatch):
    with Served(f"sqlite:///{tmp_path}/store.db") as served:
        page = PAGE.replace("http://127.0.0.1:8787", served.url)
        for block in re.findall(r"```sh\n(.*?)```", page, re.DOTALL):
            if block.startswith("curl"):
                answer = send(served, block)
        assert '"id":"visit-1"' in answer.text
        assert '"reward":1.0' in answer.text
        code, whole_log, from_personalizer = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
        exec(code.replace("timeout=0.5", "timeout=20"), {})
        arm, probability = capsys.readouterr().out.split()
        assert arm in ("coffee", "tea")
        assert 0 < float(probability) <= 1
        monkeypatch.chdir(tmp_path)
        served.call("PATCH", "/v1/bandits/shop", {"wait": 0, "reward_default": 0.25})
        bodies = [{"arms": ["coffee", "tea"], "context": {"age": number}} for number in range(30)]
        served.call("POST", "/v1/bandits/shop/decisions:batch", {"decisions": bodies})
        path = "/v1/bandits/shop/log?closed=true"
        served.until(lambda: len(served.http.get(path).text.splitlines()) == 30)
        exec(whole_log.replace("10_000", "7"), {})
        assert len(list(Path("shop-log").iterdir())) == 5
        assert [each["reward"] for each in DecisionLog.read("shop-log").records()] == [0.25] * 30
        Path("personalizer.dsjson").write_text("\n".join(map(json.dumps, personalizer_events(30))))
        exec(from_personalizer, {})
        agent = served.learned().agent
        assert len(agent.model.history) == 30
        # Its columns are those of what Personalizer's clients send.
        for wrong, name in (
            ({"city": 5}, "city"),
            ({"device": {"width": "wide"}}, "device.width"),
            ({"price": "x"}, "price"),
        ):
            with pytest.raises(InputError, match=name):
                agent.choose([wrong], ["tea"])


@pytest.mark.slow
def test_the_tutorial_runs_from_top_to_bottom(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    with Served(f"sqlite:///{tmp_path}/store.db") as served:
        page = TUTORIAL.replace("http://127.0.0.1:8787", served.url).replace("timeout=5.0", "timeout=60.0")
        names = {"__name__": "__main__"}
        for language, block in re.findall(r"```(sh|python)\n(.*?)```", page, re.DOTALL):
            if language == "sh":
                answer = send(served, block)
            else:
                exec(compile(block, "serving.md", "exec"), names)
        assert answer.json()
    said = capsys.readouterr().out
    assert "as it was: 0." in said
    assert "always free shipping: " in said


def test_keys_on_the_command_line(tmp_path):
    runner, store = CliRunner(), f"sqlite:///{tmp_path}/store.db"
    made = runner.invoke(
        app, ["keys", "add", "web", "--role", "decide", "--role", "reward", "--store", store]
    )
    assert made.exit_code == 0, made.output
    assert made.output.startswith("tb_")
    shown = runner.invoke(app, ["keys", "list", "--store", store]).output
    assert shown == "web\tdecide reward\tall bandits\n"
    assert runner.invoke(app, ["keys", "remove", "web", "--store", store]).exit_code == 0
    assert runner.invoke(app, ["keys", "list", "--store", store]).output == ""
