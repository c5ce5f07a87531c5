"""All that an agent is, to compare."""

import json
import zipfile


def state(agent, folder):
    """The parts of what `save` writes, but for the wall time that the agent has spent."""
    agent.save(folder / "agent")
    with zipfile.ZipFile(folder / "agent") as archive:
        parts = {name: archive.read(name) for name in archive.namelist()}
    document = json.loads(parts.pop("agent.json"))
    return json.dumps(_timeless(document), sort_keys=True), parts


def _timeless(value):
    if isinstance(value, dict):
        return {key: _timeless(part) for key, part in value.items() if key != "rebuild_seconds"}
    return [_timeless(part) for part in value] if isinstance(value, list) else value
