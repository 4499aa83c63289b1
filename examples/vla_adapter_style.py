"""A VLA-Adapter-style loop: a function answers with a chunk, a deque hands it out action by action.

python examples/vla_adapter_style.py my.patch
"""

import sys
from collections import deque

from speedup_patch.envs import make_env
from speedup_patch.patch import SpeedupPatch
from speedup_patch.policies import load_policy

env, act = make_env("aloha/insertion"), load_policy("bundled:aloha/insertion")


def get_vla_action(observation):  # in your program: get_action(cfg, model, observation, task, processor, ...)
    return act.infer(observation)


fast = SpeedupPatch(get_vla_action, sys.argv[1])
observation, solved, steps = env.reset(seed=0), False, 0
queue: deque = deque()  # no maxlen: shortened chunks have fewer actions than usual
while not solved and steps < env.max_steps:
    if not queue:
        queue.extend(fast(observation))
    observation, solved = env.step(queue.popleft())
    steps += 1
print(f"{'solved' if solved else 'not solved'} in {steps} control steps")
