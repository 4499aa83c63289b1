"""Draws how one grasp is retimed, the figure of docs/retiming.md.

    python benchmarks/retiming_figure.py --patch my.patch --data my_dataset --out docs/pictures/retiming.svg

The chunk is the one of an episode in which the fingers close the most, with the stroke in its middle. Everything drawn
is what the patch computes when it decides: the motion its world model foresees, the warps, their deviations and its
choice.
"""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import tyro
from jaxtyping import Float
from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from figure_style import GREY, INK, style
from speedup_patch.candidates import Retimings
from speedup_patch.data import Episode
from speedup_patch.datasets import read_demonstrations
from speedup_patch.errors import InputError
from speedup_patch.observations import feature_poses, observe_episode
from speedup_patch.relabel import Counterfactuals, predict_counterfactuals
from speedup_patch.retiming import finger_opening, paths_at_rate_one
from speedup_patch.runtime.patch_folder import LoadedPatch, load_patch

COLOURS = "#0072b2", "#d55e00", "#007a5a"
LINES = "-", "--"


@dataclass(frozen=True)
class Settings:
    """Draw how one grasp is retimed."""

    patch: Path
    """A patch that chooses among retimings."""
    data: Path
    """Demonstrations of the same robot."""
    out: Path
    """The picture, ending in .svg or .png."""
    episode: int = 0


@dataclass(frozen=True, eq=False)
class Grasp:
    """One chunk as the patch sees it when it decides."""

    patch: LoadedPatch
    choices: Retimings
    chunk: Float[np.ndarray, "n A"]
    path: Float[np.ndarray, "m X"]
    """The features foreseen at rate 1, the present first."""
    found: Counterfactuals
    choice: int

    @property
    def shown(self) -> dict[int, str]:
        """Up to three levels and their colours: the boldest for every pace that fingers are allowed."""
        boldest = {level.stroke: index for index, level in enumerate(self.choices.levels) if level.fastest > 1}
        return dict(zip(boldest.values(), COLOURS, strict=False))

    def positions(self, option: int) -> Float[np.ndarray, " l"]:
        """Where in the chunk the commands of an option lie."""
        return self.found.options.positions[0, option, : self.found.options.lengths[0, option]]

    def openings(self) -> Float[np.ndarray, "m G"]:
        """How far every gripper is foreseen to be open."""
        pairs = zip(self.patch.robot.grippers, self.patch.limits.grippers, strict=True)
        return np.stack([finger_opening(self.patch.robot, part, limit, self.path) for part, limit in pairs], axis=-1)


def main(settings: Settings) -> None:
    grasp = find_grasp(settings)
    with rc_context(style("retiming")):
        figure = Figure(figsize=(9.2, 8.0), layout="constrained", facecolor="white")
        panels = figure.subplots(4, 1, sharex=True, gridspec_kw={"height_ratios": (0.7, 1.2, 1.3, 1.5)})
        for panel, draw in zip(panels, (draw_speed, draw_fingers, draw_rates, draw_commands), strict=True):
            draw(panel, grasp)
            panel.grid(axis="x", color="#ececec", linewidth=0.8)
            panel.set_axisbelow(True)
        n = len(grasp.chunk)
        panels[-1].set(xlim=(0, n), xticks=range(0, n + 1, 2), xlabel="step of the policy's chunk")
        settings.out.parent.mkdir(parents=True, exist_ok=True)
        figure.savefig(settings.out, dpi=130, metadata={"Date": None} if settings.out.suffix == ".svg" else None)


def find_grasp(settings: Settings) -> Grasp:
    """The chunk of the episode in which the fingers close the most, and what the patch makes of it."""
    patch, episodes = load_patch(settings.patch), list(read_demonstrations(settings.data))
    choices = patch.candidates.choices
    if not isinstance(choices, Retimings) or not patch.robot.grippers:
        raise InputError(f"{settings.patch} does not choose among retimings of a robot with a gripper")
    if not 0 <= settings.episode < len(episodes) or len(episodes[settings.episode]) <= patch.chunk_length:
        raise InputError(f"--episode {settings.episode}: there is no such episode, or it is no longer than a chunk")
    episode, n = episodes[settings.episode], patch.chunk_length
    start = find_stroke(patch, episode)
    observation, chunk = observe_episode(patch.robot, episode)[start][None], episode.actions[start : start + n][None]
    path = paths_at_rate_one(patch.world_model, observation, chunk)[:, 1:]
    found = predict_counterfactuals(
        patch.world_model, observation, chunk, patch.candidates, patch.measure, patch.limits
    )
    choice = int(patch.chooser.choose(observation, found.options)[0])
    return Grasp(patch, choices, chunk[0], path[0], found, choice)


def find_stroke(patch: LoadedPatch, episode: Episode) -> int:
    """The start of the chunk that has the most of the fingers' closing, half of it before its middle."""
    n, pairs = patch.chunk_length, zip(patch.robot.grippers, patch.limits.grippers, strict=True)
    opening = np.sum([limit.scale.shown(episode.states[:, list(part.state)]) for part, limit in pairs], axis=0)
    first = int(np.argmax(opening[:-n] - opening[n:]))
    closed = np.maximum(-np.diff(opening[first : first + n + 1]), 0.0).cumsum()
    return int(np.clip(first + np.searchsorted(closed, closed[-1] / 2) - n // 2, 0, len(episode) - n))


def draw_speed(panel: Axes, grasp: Grasp) -> None:
    """The end-effectors' speed against the demonstrated limit."""
    robot = grasp.patch.robot
    to_centimetres = 100.0 * robot.control_hz
    poses = feature_poses(robot, grasp.path)
    speeds = to_centimetres * np.linalg.norm(np.diff(poses[..., :3], axis=0), axis=-1)
    for arm, line in zip(range(speeds.shape[1]), LINES, strict=False):
        panel.stairs(
            speeds[:, arm], baseline=None, color=INK, linestyle=line, linewidth=1.4, label=robot.arms[arm].name
        )
    limit = to_centimetres * min(arm.speed for arm in grasp.patch.limits.arms)
    panel.axhline(limit, color=GREY, linestyle=":", linewidth=1.6)
    beside(panel, grasp, limit, "limit read from the\ndemonstrations", GREY)
    panel.set(ylim=(0, 1.1 * max(limit, speeds.max())), ylabel="cm/s")
    panel.legend(frameon=False, loc="center left", ncols=2, title="hand", alignment="left")
    entitle(panel, "How fast the hands move in the policy's chunk")


def draw_fingers(panel: Axes, grasp: Grasp) -> None:
    """The fingers' opening at rate 1, and one gripper's command as it is and as it is sent."""
    openings, n = grasp.openings(), len(grasp.chunk)
    for hand, line in zip(range(openings.shape[1]), LINES, strict=False):
        panel.plot(np.arange(n + 1), openings[:, hand], color=INK, linestyle=line, linewidth=1.4)
    beside(panel, grasp, float(openings[-1].mean()), "fingers, which stop\nat what they hold", INK)
    name, gripper = [(arm.name, arm.gripper) for arm in grasp.patch.robot.arms if arm.gripper][-1]
    span = gripper.open - gripper.closed
    told = (grasp.chunk[:, gripper.action] - gripper.closed) / span
    panel.plot(np.arange(1, n + 1), told, color=GREY, linewidth=1.6)
    for option, colour in grasp.shown.items():
        at = grasp.positions(option)
        sent = grasp.found.options.chunks[0, option, : len(at), gripper.action]
        panel.plot(at, (sent - gripper.closed) / span, "D", markersize=4.5, color=colour, clip_on=False)
    beside(panel, grasp, float(told[-1]), f"{name} hand's command\n(line), read ahead (marks)", GREY)
    panel.set(ylim=(-0.06, 1.06), yticks=(0, 1), yticklabels=("closed", "open"))
    entitle(panel, "How their fingers close")


def draw_rates(panel: Axes, grasp: Grasp) -> None:
    """How many steps of the chunk each executed command stands for."""
    for option, colour in grasp.shown.items():
        at = grasp.positions(option)
        widths = np.diff(at, prepend=0.0)
        panel.stairs(widths, np.append(0.0, at), baseline=None, color=colour, linewidth=1.8)
        panel.plot(at, widths, "o", markersize=5, color=colour, clip_on=False)
        beside(panel, grasp, widths[-1], f"fingers x{grasp.choices.levels[option].stroke:g}", colour)
    panel.axhline(1.0, color=GREY, linestyle=":", linewidth=1.6)
    panel.set(ylim=(0.6, None), ylabel="rate")
    entitle(panel, "Rate: steps of the chunk per executed command, at three levels of boldness")


def draw_commands(panel: Axes, grasp: Grasp) -> None:
    """Every choice as the commands it executes, with what it gains and costs."""
    labels = grasp.patch.candidates.labels
    for option in range(len(labels)):
        at, share = grasp.positions(option), grasp.found.deviations[0, option] / grasp.patch.epsilon
        colour = grasp.shown.get(option, GREY)
        panel.plot(at, np.full(len(at), option), "o", markersize=5.5, color=colour, clip_on=False)
        chosen = "  (chosen)" if option == grasp.choice else ""
        beside(panel, grasp, option, f"{len(at)} commands, E = {share:.2f} \u03b5{chosen}", INK)
    panel.set(ylim=(len(labels) - 0.4, -0.6), yticks=range(len(labels)), yticklabels=labels)
    entitle(panel, "The choices: where in the chunk each executed command lies")


def entitle(panel: Axes, text: str) -> None:
    panel.set_title(text, loc="left", fontsize=10, fontweight="bold")


def beside(panel: Axes, grasp: Grasp, height: float, text: str, colour: str) -> None:
    """Writes to the right of a panel, next to what is there at this height."""
    panel.text(len(grasp.chunk) + 0.5, height, text, va="center", color=colour)


if __name__ == "__main__":
    main(tyro.cli(Settings))
