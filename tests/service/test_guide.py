"""The commands and the code of docs/service.md, against a running service."""

import json
import re
import shlex
from pathlib import Path

import pytest
from service.served import Served
from typer.testing import CliRunner

from treebandit.cli import app
from treebandit.errors import InputError

PAGE = (Path(__file__).parents[2] / "docs" / "service.md").read_text(encoding="utf-8")


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
            words = shlex.split(block)
            if words[0] == "curl":
                method = words[words.index("-X") + 1] if "-X" in words else "GET"
                path = next(word for word in words if word.startswith("http"))
                data = words[words.index("-d") + 1] if "-d" in words else None
                answer = served.http.request(method, path, content=data)
                assert answer.status_code < 300, (block, answer.text)
        assert '"id":"visit-1"' in answer.text
        assert '"reward":1.0' in answer.text
        code, from_personalizer = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
        exec(code.replace("timeout=0.5", "timeout=20"), {})
        arm, probability = capsys.readouterr().out.split()
        assert arm in ("coffee", "tea")
        assert 0 < float(probability) <= 1
        monkeypatch.chdir(tmp_path)
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
