"""Episodes that write the same thing in another way than the rest: units, signs, kinds of action."""

from collections.abc import Iterator, Sequence

import numpy as np
from jaxtyping import Float

from speedup_patch.inspect.frames import View
from speedup_patch.inspect.report import Finding
from speedup_patch.inspect.suspicions.commands import driven_pairs
from speedup_patch.inspect.tracking import Behaviour, find_tracking, judge_episodes
from speedup_patch.inspect.wording import list_few, name_episodes
from speedup_patch.robots import Gripper, Robot, StatePose

Judged = tuple[str, dict[int, Behaviour]]
"""How commands are meant, and how those of every episode behave."""

DEGREES = 180 / np.pi
OTHER_UNIT = (DEGREES / 4, DEGREES * 4)
"""Episodes whose values are larger than the others' by a factor between these are likely to be in degrees."""
BELONGS = 0.5
"""Correlation of command and fingers from which their sign is believed."""


def find_mixed_conventions(view: View) -> Iterator[Finding]:
    """Grippers, rotations, units and kinds of action that differ between episodes, or between state and action."""
    if view.robot:
        for arm in view.robot.arms:
            if arm.gripper:
                yield from _gripper_ranges(view, arm.name, arm.gripper)
                yield from _gripper_signs(view, arm.name, arm.gripper)
        yield from _quaternion_signs(view, view.robot)
    trackings = find_tracking(view.frames, view.robot, view.poses)
    tracked = [(tracking.mode, judge_episodes(view.frames, tracking)) for tracking in trackings]
    yield from _episodes_in_degrees(view, tracked)
    yield from _degrees_against_radians(view)
    yield from _kinds_of_action(view, tracked)


def _gripper_ranges(view: View, arm: str, gripper: Gripper) -> Iterator[Finding]:
    """Commands far outside of the other episodes' range, or so small that the fingers could not have moved as they
    did."""
    frames = view.frames
    episodes = [episode for episode, _ in frames.stretches]
    commands = [frames.actions[rows, gripper.action] for _, rows in frames.stretches]
    low, high = (float(np.median([f(command) for command in commands])) for f in (np.min, np.max))
    span = max(high - low, 1e-9)
    outside = [c.max() > high + 0.5 * span or c.min() < low - 0.5 * span for c in commands]
    fingers = frames.states[:, list(gripper.state)]
    reach = np.ptp(fingers, axis=0)
    travel = [bool((np.ptp(fingers[rows], axis=0) > 0.5 * reach).any()) for _, rows in frames.stretches]
    tiny = [1e-4 * span < np.ptp(c) < 0.2 * span and moved for c, moved in zip(commands, travel, strict=True)]
    odd = [i for i in range(len(episodes)) if outside[i] or tiny[i]]
    if span <= 1e-6 or not 0 < len(odd) <= len(episodes) / 2:
        return
    first, named = commands[odd[0]], name_episodes([episodes[i] for i in odd], frames.sampled)
    yield Finding(
        "gripper_range",
        f"gripper {arm} is commanded in another range in {named}: "
        f"{first.min():.3g} .. {first.max():.3g} in episode {episodes[odd[0]]}, {low:.3g} .. {high:.3g} in most",
        "one command means two openings, and flips are missed where the range is narrow",
        "bring them to one range, or leave them out with --episodes",
    )


def _gripper_signs(view: View, arm: str, gripper: Gripper) -> Iterator[Finding]:
    """Episodes in which the fingers answer the command with the other sign."""
    frames, lag = view.frames, max(1, gripper.stroke_steps // 2)
    fingers = frames.states[:, list(gripper.state)]
    signs: dict[int, int] = {}
    for episode, rows in frames.stretches:
        answer = _answer(frames.actions[rows, gripper.action], fingers[rows], lag)
        if abs(answer) > BELONGS:
            signs[episode] = 1 if answer > 0 else -1
    usual = 1 if sum(signs.values()) >= 0 else -1
    odd = [episode for episode, sign in signs.items() if sign != usual]
    if odd:
        yield Finding(
            "gripper_sign",
            f"gripper {arm} has its sign reversed in {name_episodes(odd, frames.sampled)}: "
            f"the fingers answer the command the other way round than in the rest",
            "one command means both open and closed",
            "reverse the command in those episodes, or leave them out with --episodes",
        )


def _answer(command: Float[np.ndarray, " T"], fingers: Float[np.ndarray, "T D"], lag: int) -> float:
    """Correlation of the first finger with the command ``lag`` steps before; 0 where either hardly moves."""
    if fingers.shape[1] == 0 or len(command) <= 2 * lag + 2:
        return 0.0
    sent, seen = command[:-lag], fingers[lag:, 0]
    if np.ptp(sent) < 1e-6 or np.ptp(seen) < 1e-6:
        return 0.0
    return float(np.corrcoef(sent, seen)[0, 1])


def _quaternion_signs(view: View, robot: Robot) -> Iterator[Finding]:
    frames = view.frames
    for arm in robot.arms:
        if not isinstance(arm.pose, StatePose) or not arm.pose.representation.startswith("quaternion"):
            continue
        values = frames.states[:, list(arm.pose.rotation)]
        flips = np.flatnonzero(((values[1:] * values[:-1]).sum(axis=1) < 0) & frames.joined)
        if len(flips):
            yield Finding(
                "quaternion_sign",
                f"the quaternion of {arm.name} changes its sign {len(flips)} times in "
                f"{name_episodes(np.unique(frames.episode[flips]).tolist(), frames.sampled)}, "
                f"first into {frames.where(int(flips[0]) + 1)}",
                "q and -q are one rotation and a patch treats them so, but a policy trained on them sees leaps",
                "nothing for a patch; for a policy, keep the sign of the frame before",
            )


def _episodes_in_degrees(view: View, tracked: Sequence[Judged]) -> Iterator[Finding]:
    """Motions are small by nature, so episodes whose actions are motions are compared in their states alone."""
    motions = {episode for _, verdicts in tracked for episode, verdict in verdicts.items() if verdict == "delta"}
    for kind, table, joints in _angles(view):
        sizes = {
            episode: float(np.median(np.abs(table[rows][:, joints]).max(axis=0)))
            for episode, rows in view.frames.stretches
            if kind == "state" or episode not in motions
        }
        usual = float(np.median(list(sizes.values()))) if sizes else 0.0
        low, high = OTHER_UNIT
        odd = [episode for episode, size in sizes.items() if usual > 0 and low < size / usual < high]
        odd += [episode for episode, size in sizes.items() if size > 0 and low < usual / size < high]
        odd = sorted(set(odd))
        if odd:
            yield Finding(
                "degrees_between_episodes",
                f"{kind}s are in another unit in {name_episodes(odd, view.frames.sampled)}: "
                f"up to {sizes[odd[0]]:.3g} in episode {odd[0]}, {usual:.3g} in most; degrees and radians?",
                "one number means two places, and everything that is learned is wrong by a factor of 57",
                "convert them to one unit, or leave them out with --episodes",
            )


def _angles(view: View) -> Iterator[tuple[str, Float[np.ndarray, "N D"], list[int]]]:
    """(kind, table, columns) of states and of targets, without grippers, motions and what never changes."""
    frames, pairs = view.frames, driven_pairs(view)
    grippers = view.robot.grippers if view.robot else ()
    targets = [action for action in pairs if action not in {gripper.action for gripper in grippers}]
    driven = [pairs[action] for action in targets] or list(range(frames.states.shape[1]))
    for kind, table, columns in (("state", frames.states, driven), ("action", frames.actions, targets)):
        used = [i for i in columns if np.ptp(table[:, i]) > 1e-6]
        if used:
            yield kind, table, used


def _degrees_against_radians(view: View) -> Iterator[Finding]:
    frames = view.frames
    pairs = {
        action: state
        for action, state in driven_pairs(view).items()
        if min(np.ptp(frames.actions[:, action]), np.ptp(frames.states[:, state])) > 1e-6
    }
    if view.robot:
        pairs = {a: s for a, s in pairs.items() if a not in {gripper.action for gripper in view.robot.grippers}}
    if not pairs:
        return
    ratios = np.std(frames.actions[:, list(pairs)], axis=0) / np.std(frames.states[:, list(pairs.values())], axis=0)
    ratio = float(np.median(ratios))
    if DEGREES / 1.5 < ratio < DEGREES * 1.5 or DEGREES / 1.5 < 1 / ratio < DEGREES * 1.5:
        larger, smaller = ("actions", "states") if ratio > 1 else ("states", "actions")
        times = max(ratio, 1 / ratio)
        names = list_few([view.action_names[action] for action in pairs])
        yield Finding(
            "degrees_against_radians",
            f"{larger} vary {times:.0f} times as much as the {smaller} they belong to ({names}): "
            f"{larger} in degrees, {smaller} in radians?",
            "the robot is said to follow its commands by a 57th",
            "convert one of them, so that both are in the unit of the robot's description",
        )


def _kinds_of_action(view: View, tracked: Sequence[Judged]) -> Iterator[Finding]:
    for mode, verdicts in tracked:
        found = {kind: [e for e, verdict in verdicts.items() if verdict == kind] for kind in ("absolute", "delta")}
        few, many = sorted(found, key=lambda kind: len(found[kind]))
        if found[few]:
            yield Finding(
                "absolute_and_delta",
                f"actions behave like {few} ones in {name_episodes(found[few], view.frames.sampled)}, "
                f"like {many} ones in the rest",
                "targets are interpolated and motions are added up: one rule does harm to the other kind",
                f"convert them to {many} actions, or leave them out with --episodes",
            )
        elif mode not in ("unknown", many) and len(found[many]) > len(verdicts) / 2:
            yield Finding(
                "other_kind_of_action",
                f"robot {view.robot.name if view.robot else ''} takes {mode} actions, but these behave like "
                f"{many} ones in {name_episodes(found[many], view.frames.sampled)}",
                "targets are interpolated and motions are added up: chunks would be shortened by the wrong rule",
                "choose another column with --action, or describe the robot as it is in a .toml file (docs/robots.md)",
            )
