"""What river's ADWIN says of some streams, for tests/models/test_drift.py.

python benchmarks/foreign_drift.py tests/adwin.json   in an environment that has river
"""

import json
import sys

import numpy as np
import river
from river.drift import ADWIN

random = np.random.default_rng(7)
STREAMS = {
    "abrupt": np.r_[random.normal(0, 0.3, 400), random.normal(0.5, 0.3, 300)],
    "twice": np.r_[random.normal(0, 0.3, 300), random.normal(0.6, 0.3, 300), random.normal(0, 0.3, 200)],
    "none": random.normal(0, 1, 700),
    "gradual": random.normal(0, 0.3, 900) + np.linspace(0, 1, 900),
    "clicks": np.r_[random.random(500) < 0.1, random.random(400) < 0.4].astype(float),
}


def watched(numbers):
    """When it raises an alarm, and its width, mean and sum of squares then; it begins anew after each."""
    detector, alarms = ADWIN(), []
    for place, number in enumerate(numbers):
        detector.update(number)
        if detector.drift_detected:
            alarms.append([place + 1, detector.width, detector.estimation, detector.variance])
    end = [len(numbers), detector.width, detector.estimation, detector.variance]
    return {"numbers": numbers, "alarms": alarms, "end": end}


if __name__ == "__main__":
    found = {name: watched(np.round(stream, 2).tolist()) for name, stream in STREAMS.items()}
    with open(sys.argv[1], "w") as file:
        json.dump({"river": river.__version__, "streams": found}, file)
