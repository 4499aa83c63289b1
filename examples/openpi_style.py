"""An openpi-style policy: infer(observation) -> {"actions": (n, A), ...}. Only the actions change.

python examples/openpi_style.py my.patch
"""

import sys

from speedup_patch.envs import make_env
from speedup_patch.patch import SpeedupPatch
from speedup_patch.policies import load_policy

env, act = make_env("aloha/insertion"), load_policy("bundled:aloha/insertion")


class Policy:  # in your program: openpi_client.websocket_client_policy.WebsocketClientPolicy(host, port)
    def infer(self, observation):
        return {"actions": act.infer(observation), "policy_timing": {"infer_ms": 1.0}}

    def reset(self):
        pass


policy = SpeedupPatch(Policy(), sys.argv[1], state_key="state")
observation, solved, steps = env.reset(seed=0), False, 0
policy.reset()
while not solved and steps < env.max_steps:
    for action in policy.infer(observation)["actions"]:  # all of them, then ask again
        observation, solved = env.step(action)
        steps += 1
        if solved:
            break
print(f"{'solved' if solved else 'not solved'} in {steps} control steps")
