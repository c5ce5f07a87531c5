"""The commands and the code of docs/service.md, against a running service."""

import re
import shlex
from pathlib import Path

from service.served import Served
from typer.testing import CliRunner

from treebandit.cli import app

PAGE = (Path(__file__).parents[2] / "docs" / "service.md").read_text(encoding="utf-8")


def test_start_create_decide_reward_look(tmp_path, capsys):
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
        (code,) = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
        exec(code.replace("timeout=0.5", "timeout=20"), {})
        arm, probability = capsys.readouterr().out.split()
        assert arm in ("coffee", "tea")
        assert 0 < float(probability) <= 1


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
