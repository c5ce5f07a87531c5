"""Rows to give to agents."""

import numpy as np

ROWS = np.random.default_rng(0).normal(size=(3, 4))


def fingerprint(agent, tmp_path):
    agent.save(tmp_path / "agent")
    return (tmp_path / "agent").read_bytes()


ROWS32 = ROWS.astype(np.float32)


ONE = {"age": 31.5, "city": "Rome", "member": True}
