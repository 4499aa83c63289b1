"""What schedulers do to the machine, measured in every episode and compared with base on the same seeds."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from speedup_patch.data import EpisodeResult, MachineState, Stress
from speedup_patch.errors import InputError
from speedup_patch.maths.stress import joint_accelerations, joint_jerks, joint_speeds, magnitude_quantile, peak_ratio
from speedup_patch.robots import Robot

FEWEST_MOMENTS = 4
"""A third difference needs as many."""


def measure_stress(robot: Robot, moments: Sequence[MachineState]) -> Stress | None:
    """The stress of an episode from the machine at its start and after every control step; None where there are fewer
    than four moments. Forces count from the first control step on."""
    if len(moments) < FEWEST_MOMENTS:
        return None
    joints, dt = np.stack([moment.joints for moment in moments]), 1.0 / robot.control_hz
    speeds = joint_speeds(joints, dt)
    acceleration, jerk = (
        magnitude_quantile(values) for values in (joint_accelerations(joints, dt), joint_jerks(joints, dt))
    )
    assert acceleration is not None
    assert jerk is not None
    known = [moment.forces for moment in moments[1:] if moment.forces is not None]
    forces = np.stack(known) if len(known) == len(moments) - 1 else None
    return Stress(
        peak_joint_speed=float(np.abs(speeds).max()),
        peak_joint_speed_rating_ratio=_to_rating(robot, "rated_speeds", speeds),
        acceleration_99=acceleration,
        jerk_99=jerk,
        peak_force=None if forces is None else float(np.abs(forces).max()),
        peak_force_rating_ratio=None if forces is None else _to_rating(robot, "rated_torques", forces),
    )


def _to_rating(robot: Robot, name: str, values: Float[np.ndarray, "T J"]) -> float | None:
    ratings = np.array(getattr(robot, name))
    if len(ratings) == 0:
        return None
    if len(ratings) != values.shape[1]:
        raise InputError(
            f"robot {robot.name!r} has {len(ratings)} {name}, but its simulator tells of {values.shape[1]} joints; "
            "one per joint, without fingers, would be right"
        )
    return peak_ratio(values, ratings)


@dataclass(frozen=True)
class StressSummary:
    """Means over episodes of what each did to the machine; ratios are to base on the same seeds. None where a simulator
    cannot tell, or base was not run."""

    peak_joint_speed: float | None = None
    """rad/s (m/s where joints slide)."""
    peak_joint_speed_ratio: float | None = None
    peak_joint_speed_rating_ratio: float | None = None
    """The highest speed of any joint in an episode, as a ratio to that joint's rating."""
    acceleration_99: float | None = None
    """What 99% of an episode's joint accelerations are below, rad/s^2."""
    acceleration_99_ratio: float | None = None
    jerk_ratio: float | None = None
    """Of what 99% of an episode's joint jerks are below."""
    peak_force_ratio: float | None = None
    peak_force_rating_ratio: float | None = None


def summarise_stress(episodes: Sequence[EpisodeResult], base: Mapping[int, EpisodeResult]) -> StressSummary:
    """The stress of a scheduler's episodes, solved or not."""
    felt = [result.stress for result in episodes if result.stress]
    pairs = [
        (before.stress, result.stress)
        for result in episodes
        if result.stress and (before := base.get(result.seed)) and before.stress
    ]

    def mean(figure: Callable[[Stress], float | None]) -> float | None:
        values = [value for stress in felt if (value := figure(stress)) is not None]
        return float(np.mean(values)) if values else None

    def ratio(figure: Callable[[Stress], float | None]) -> float | None:
        values = [(figure(before), figure(after)) for before, after in pairs]
        known = [(before, after) for before, after in values if before is not None and after is not None]
        below = sum(before for before, _ in known)
        return sum(after for _, after in known) / below if below > 0 else None

    return StressSummary(
        peak_joint_speed=mean(lambda stress: stress.peak_joint_speed),
        peak_joint_speed_ratio=ratio(lambda stress: stress.peak_joint_speed),
        peak_joint_speed_rating_ratio=mean(lambda stress: stress.peak_joint_speed_rating_ratio),
        acceleration_99=mean(lambda stress: stress.acceleration_99),
        acceleration_99_ratio=ratio(lambda stress: stress.acceleration_99),
        jerk_ratio=ratio(lambda stress: stress.jerk_99),
        peak_force_ratio=ratio(lambda stress: stress.peak_force),
        peak_force_rating_ratio=mean(lambda stress: stress.peak_force_rating_ratio),
    )
