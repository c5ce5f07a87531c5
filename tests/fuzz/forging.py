"""Saved files with bytes, values or arrays changed."""

import io
import json
import zipfile
from copy import deepcopy

import numpy as np

NASTY = [
    None, True, False, 0, 1, -1, 2, 7, 255, 1 << 16, (1 << 31) - 1, 1 << 31, 1 << 40, (1 << 63) - 1, 1 << 63, 1 << 70,
    -(1 << 31), -(1 << 63), 10**30, 0.5, -0.0, 1e-300, 1e300, 1e308, float("nan"), float("inf"), -float("inf"), "", "x",
    "$array", "PCG64", "TETS", "os:system", [], {}, [0], [[]], {"$array": 0}, {"class": "Bandit"}, {"a": 1}, [None] * 5,
]  # fmt: skip


def forge(content, random):
    """A saved file with one to three changes, and what they are."""
    if random.random() < 0.03:
        return forge_bytes(content, random)
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        document = json.loads(archive.read("agent.json"))
        arrays = [np.load(io.BytesIO(archive.read(f"{i}.npy"))) for i in range(len(archive.namelist()) - 1)]
    forged = []
    for _ in range(random.integers(1, 4)):
        if arrays and random.random() < 0.6:
            forged.append(forge_array(arrays, random))
        else:
            forged.append(forge_json(document, random))
    return pack(document, arrays), forged


def pack(document, arrays):
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr("agent.json", json.dumps(document))
        for number, array in enumerate(arrays):
            member = io.BytesIO()
            np.save(member, array)
            archive.writestr(f"{number}.npy", member.getvalue())
    return buffer.getvalue()


def forge_bytes(content, random):
    forged = bytearray(content)
    if random.random() < 0.3:
        return bytes(forged[: random.integers(len(forged))]), ["cut"]
    for place in random.integers(len(forged), size=random.integers(1, 9)):
        forged[place] = random.integers(256)
    return bytes(forged), ["bytes"]


def containers(value, path=()):
    """All tables and lists of a document, and where they are."""
    if isinstance(value, dict | list):
        yield path, value
        parts = value.items() if isinstance(value, dict) else enumerate(value)
        for key, part in parts:
            yield from containers(part, (*path, key))


def forge_json(document, random):
    places = [place for place in containers(document) if len(place[1])]
    # Half of the time what the agent has learned, else its arguments too.
    inner = [place for place in places if place[0][:1] == ("state",)]
    path, holder = (inner or places)[random.integers(len(inner or places))]
    if random.random() < 0.3:
        path, holder = places[random.integers(len(places))]
    keys = list(holder) if isinstance(holder, dict) else list(range(len(holder)))
    key = keys[random.integers(len(keys))]
    how = random.choice(["nasty", "nasty", "nasty", "near", "near", "delete", "swap", "add", "copy"])
    if how == "nasty":
        holder[key] = deepcopy(NASTY[random.integers(len(NASTY))])
    elif how == "near" and isinstance(holder[key], int | float) and not isinstance(holder[key], bool):
        holder[key] = holder[key] + int(random.choice([-2, -1, 1, 2, 10])) * random.choice([1, 1, 1.5])
    elif how == "delete":
        del holder[key]
    elif how == "swap":
        other = keys[random.integers(len(keys))]
        holder[key], holder[other] = holder[other], holder[key]
    elif how == "add" and isinstance(holder, dict):
        name = str(random.choice(["more", "class", "$array", "$$", "seed"]))
        holder[name] = deepcopy(NASTY[random.integers(len(NASTY))])
    else:
        _, other = places[random.integers(len(places))]
        holder[key] = json.loads(json.dumps(other))
    return f"{how} {'/'.join(map(str, (*path, key)))}"


def forge_array(arrays, random):
    number = int(random.integers(len(arrays)))
    array = arrays[number]
    how = random.choice(["values", "values", "values", "all", "shape", "dtype", "swap", "shuffle", "bits"])
    if how in ("values", "all", "bits") and array.size:
        array = np.array(array)
        flat = array.reshape(-1)
        places = slice(None) if how == "all" else random.integers(array.size, size=random.integers(1, 4))
        if how == "bits":
            raw = flat.view(np.uint8)
            raw[random.integers(raw.size, size=random.integers(1, 4))] = random.integers(256)
        elif array.dtype.names:
            name = str(random.choice(array.dtype.names))
            flat[name][places] = nasty_number(flat[name].dtype, random)
        else:
            flat[places] = nasty_number(array.dtype, random)
        arrays[number] = array
    elif how == "shape":
        arrays[number] = reshaped(array, random)
    elif how == "dtype" and not array.dtype.names:
        with np.errstate(all="ignore"):
            arrays[number] = array.astype(
                random.choice(["f4", "f8", "i4", "i8", "u1", "u8", "?", ">f4", ">i8", "f2"])
            )
    elif how == "shuffle" and array.size:
        arrays[number] = array[random.permutation(len(array))]
    else:
        other = int(random.integers(len(arrays)))
        arrays[number], arrays[other] = arrays[other], arrays[number]
    return f"{how} array {number}"


def nasty_number(dtype, random):
    if dtype.kind == "b":
        return bool(random.integers(2))
    if dtype.kind == "f":
        return float(random.choice([0.0, -1.0, 1e30, -1e30, np.nan, np.inf, -np.inf, 1e-30, 0.5, 2.0**24]))
    limits = np.iinfo(dtype)
    large = [limits.max, limits.min, limits.max // 2, limits.max - 15, 1 << 40]
    small = [-1, 0, 1, 2, 3, 5, 8, 13, 100, 1000]
    choices = large if random.random() < 0.5 else small
    return min(max(choices[random.integers(len(choices))], limits.min), limits.max)


def reshaped(array, random):
    how = random.integers(7)
    if how == 0:
        return array[: len(array) // 2]
    if how == 1:
        return array[:0]
    if how == 2:
        return np.concatenate([array, array]) if array.ndim else array
    if how == 3:
        return array[None]
    if how == 4:
        return array.reshape(-1)
    if how == 5:
        return np.asfortranarray(array.T)
    return array[..., :1] if array.ndim else array[None]
