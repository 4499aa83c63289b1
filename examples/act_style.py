"""ACT's own control loop, one action per control step, with a patch around the policy.

python examples/act_style.py my.patch
"""

import sys

from speedup_patch.envs import make_env
from speedup_patch.patch import ActionQueue, SpeedupPatch
from speedup_patch.policies import load_policy

env = make_env("aloha/insertion")  # your robot
policy = load_policy("bundled:aloha/insertion")  # your policy: anything with infer(observation) -> (n, A)
queue = ActionQueue(SpeedupPatch(policy, sys.argv[1]))

observation, solved, steps = env.reset(seed=0), False, 0
queue.reset()
while not solved and steps < env.max_steps:
    observation, solved = env.step(queue.next(observation))
    steps += 1
print(f"{'solved' if solved else 'not solved'} in {steps} control steps")
