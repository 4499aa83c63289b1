"""What in a data set is likely to be a mistake, or to surprise whoever trains on it."""

from speedup_patch.inspect.frames import View
from speedup_patch.inspect.motion import Pause
from speedup_patch.inspect.report import Finding, GripperUse
from speedup_patch.inspect.suspicions.commands import find_command_faults
from speedup_patch.inspect.suspicions.conventions import find_mixed_conventions
from speedup_patch.inspect.suspicions.episodes import find_episode_faults
from speedup_patch.inspect.suspicions.limits import find_limit_faults
from speedup_patch.inspect.suspicions.values import find_value_faults


def find_suspicions(
    view: View, pauses: list[Pause], grippers: tuple[GripperUse, ...], chunk_length: int
) -> tuple[Finding, ...]:
    """Everything that looks wrong, each with what it means and what to do."""
    return (
        *find_limit_faults(view, grippers),
        *find_mixed_conventions(view),
        *find_command_faults(view),
        *find_value_faults(view),
        *find_episode_faults(view, pauses, chunk_length),
    )
