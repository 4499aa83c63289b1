"""A patch runs where only numpy, onnxruntime and safetensors are installed."""

import subprocess
import sys

import numpy as np

SCRIPT = """
import sys

class Forbidden:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in {"torch", "scipy", "mujoco", "pyarrow", "h5py", "onnx", "rich", "tyro", "matplotlib"}:
            raise ImportError(f"{name} is not installed on this robot")

sys.meta_path.insert(0, Forbidden())
import numpy as np
from speedup_patch.patch import ActionQueue, SpeedupPatch

moment = np.load(sys.argv[2])
policy = SpeedupPatch(lambda observation: moment["chunk"], sys.argv[1])
queue = ActionQueue(policy)
action = queue.next({"state": moment["state"]})
assert action.shape == (14,) and policy.last.reason is None, policy.last
print(len(queue) + 1)
"""


def test_a_decision_is_made_without_them(patch_folder, tmp_path):
    from stand_ins import smooth_demonstrations

    episode = smooth_demonstrations(episodes=12).episodes[0]
    np.savez(tmp_path / "moment.npz", chunk=episode.actions[20:32], state=episode.states[20])
    command = [sys.executable, "-c", SCRIPT, str(patch_folder), str(tmp_path / "moment.npz")]
    run = subprocess.run(command, capture_output=True, text=True, timeout=600)
    assert run.returncode == 0, run.stderr
    assert 2 <= int(run.stdout) <= 12
