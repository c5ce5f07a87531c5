import re
import subprocess
import sys

from fuzz import fuzz_studies


def test_changed_studies_are_read_or_refused_in_one_line():
    command = [sys.executable, fuzz_studies.__file__, "100", "1"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr[-2000:]
    accepted, refused = (int(re.search(rf"(\d+) {word}", done.stdout)[1]) for word in ("accepted", "refused"))
    assert accepted > 0
    assert refused > 50
