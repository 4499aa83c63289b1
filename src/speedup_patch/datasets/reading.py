"""Demonstrations out of one or several data sets of the same robot."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path

from speedup_patch.data import Demonstrations, Episode
from speedup_patch.datasets.assembly import assemble
from speedup_patch.datasets.recognition import open_source
from speedup_patch.datasets.selection import Chosen, Part, Selection, names_of
from speedup_patch.datasets.source import BadEpisode, Source
from speedup_patch.errors import InputError
from speedup_patch.robots import Robot

EVERYTHING = Selection()


@dataclass(frozen=True)
class Reading:
    """What was read, what was left out and why, and what the data sets call their dimensions (empty: nothing)."""

    demonstrations: Demonstrations
    left_out: tuple[BadEpisode, ...] = ()
    state_names: tuple[str, ...] = ()
    action_names: tuple[str, ...] = ()


@dataclass(frozen=True)
class Plan:
    """One data set and what will be read from it."""

    source: Source
    chosen: Chosen
    control_hz: float
    robot_name: str

    @property
    def state_size(self) -> int:
        return _size(self.chosen.state)

    @property
    def action_size(self) -> int:
        return _size(self.chosen.action)


def read_datasets(paths: Sequence[Path], selection: Selection = EVERYTHING, robot: Robot | None = None) -> Reading:
    """The selected episodes of every data set, one after the other; the selection applies to each of them.

    The data sets must agree in their dimensions, control frequency and robot. ``robot`` gives the frequency where
    neither the data nor the selection does, and lets poses be checked that only a robot can tell from numbers.
    """
    if not paths:
        raise InputError("no data set was named; give the path of at least one")
    plans = [_plan(open_source(path), selection, robot) for path in paths]
    for first, second in combinations(plans, 2):
        _refuse_difference(first, second)
    if robot:
        for plan in plans:
            robot.check_sizes(plan.state_size, plan.action_size, f"{plan.source.path}")
    episodes: list[Episode] = []
    left_out: list[BadEpisode] = []
    for plan in plans:
        found, bad = _read(plan, selection, robot)
        episodes += found
        left_out += bad
    name = next((plan.robot_name for plan in plans if plan.robot_name), "")
    return Reading(
        Demonstrations(tuple(episodes), plans[0].control_hz, name),
        tuple(left_out),
        state_names=_first_filled(names_of(plan.chosen.state, plan.source) for plan in plans),
        action_names=_first_filled(names_of(plan.chosen.action, plan.source) for plan in plans),
    )


def read_demonstrations(path: Path) -> Demonstrations:
    """Every episode of the data set at ``path``, whose format is recognised."""
    return read_datasets([path]).demonstrations


def _plan(source: Source, selection: Selection, robot: Robot | None) -> Plan:
    control_hz = selection.control_hz or source.control_hz or (robot.control_hz if robot else None)
    if control_hz is None:
        raise InputError(f"{source.path} does not say its control frequency; give it with --hz, such as --hz 20")
    return Plan(source, selection.choose_columns(source), control_hz, source.robot_name)


def _first_filled(candidates: Iterable[tuple[str, ...]]) -> tuple[str, ...]:
    return next((names for names in candidates if names), ())


def _size(parts: Sequence[Part]) -> int:
    return sum(part.stop - part.start for part in parts)


def _refuse_difference(first: Plan, second: Plan) -> None:
    compared = {
        "state dimensions": (first.state_size, second.state_size),
        "action dimensions": (first.action_size, second.action_size),
        "control frequency (Hz)": (first.control_hz, second.control_hz),
        "robot": (first.robot_name or second.robot_name, second.robot_name or first.robot_name),
    }
    for what, (one, other) in compared.items():
        if one != other:
            raise InputError(
                f"{first.source.path} and {second.source.path} differ in {what}: {one} and {other}; "
                f"data sets that are read together must be of one robot"
            )


def _read(plan: Plan, selection: Selection, robot: Robot | None) -> tuple[list[Episode], list[BadEpisode]]:
    """(episodes, those left out) of one data set."""
    source, chosen = plan.source, plan.chosen
    episodes: list[Episode] = []
    left_out: list[BadEpisode] = []
    other_tasks: set[str] = set()
    for raw in source.read(selection.choose_episodes(source), chosen.columns):
        try:
            if isinstance(raw, BadEpisode):
                raise InputError(raw.problem)
            if selection.wants_task(raw.task):
                episodes.append(assemble(raw, chosen, source.columns, plan.control_hz, robot))
            else:
                other_tasks.add(raw.task)
        except InputError as error:
            if not selection.skip_bad:
                raise InputError(f"{error} (--skip-bad leaves such episodes out)") from error
            left_out.append(BadEpisode(raw.number, str(error)))
    if left_out and not episodes:
        raise InputError(f"no episode of {source.path} can be read; the first fault is {left_out[0].problem}")
    if not episodes:
        raise selection.unknown_task(source, other_tasks)
    return episodes, left_out
