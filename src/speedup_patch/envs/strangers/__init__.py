"""Robots that nobody tuned for: drawn from a number, in light physics, each with a task of its own."""

from speedup_patch.envs.strangers.env import StrangerEnv as StrangerEnv
from speedup_patch.envs.strangers.spec import STRANGERS as STRANGERS
from speedup_patch.envs.strangers.spec import Stranger as Stranger
from speedup_patch.envs.strangers.spec import draw_stranger as draw_stranger
