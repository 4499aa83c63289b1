"""Makes ``--policy.type=speedup_patch`` and ``--env.type=aloha_state`` known to LeRobot's commands.

LeRobot imports this package because of its name; the policy itself is ``speedup_patch.lerobot``.
"""

from speedup_patch.lerobot import aloha_state, configuration_speedup_patch  # noqa: F401
