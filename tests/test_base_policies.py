"""What lets the base policies be trained on a machine without all that LeRobot imports."""

import subprocess
import sys
from pathlib import Path

BASE_POLICIES = Path(__file__).parents[1] / "base_policies"

PROGRAM = """
import sys
from stand_in_packages import StandInFinder

sys.meta_path.insert(0, StandInFinder(("json.tool",)))
sys.meta_path.append(StandInFinder(("not_installed", "json")))
from not_installed.inside import Something, decorate
import json

@decorate
class Decorated(Something):
    pass

assert json.loads("1") == 1, "an installed package is preferred"
import json.tool
assert not hasattr(json.tool, "__file__"), "a module to be replaced is replaced"
try:
    import missing_for_good
except ModuleNotFoundError:
    print("good")
"""


def test_missing_packages_are_stood_in_for_and_installed_ones_are_not():
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], cwd=BASE_POLICIES, capture_output=True, text=True, check=False
    )
    assert done.stdout == "good\n", done.stderr
