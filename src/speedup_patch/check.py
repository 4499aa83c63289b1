"""What a patch would do, judged offline on demonstrations by its own world model."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float

from speedup_patch.candidates import Options
from speedup_patch.data import Demonstrations, Transitions
from speedup_patch.errors import InputError
from speedup_patch.relabel import relabel
from speedup_patch.runtime.patch_folder import LoadedPatch
from speedup_patch.scheduler.choices import ChoiceFigures, judge_choices

CHECKED_STATES = 5000
"""About how many demonstrated states a check looks at."""


@dataclass(frozen=True)
class OptionFigures:
    """One way of running a chunk, on every state."""

    label: str
    violation_share: float
    deviation_median: float
    deviation_p95: float
    speedup: float
    """Original actions done per command sent, the short last group included."""
    chosen_share: float
    """How often the scheduler takes it."""


@dataclass(frozen=True)
class PatchCheck:
    """The scheduler on states as demonstrated and on states as reached at speed."""

    states: int
    episodes: int
    held_out: bool
    """True when the states come from episodes that training kept apart."""
    options: tuple[OptionFigures, ...]
    demonstrated: ChoiceFigures
    accelerated: ChoiceFigures | None


def check_patch(patch: LoadedPatch, demonstrations: Demonstrations, seed: int = 0) -> PatchCheck:
    """Judges the patch on the episodes it was not trained on, or on all when the data is not its own."""
    patch.robot.check_sizes(demonstrations.state_size, demonstrations.action_size, "the data set")
    data = patch.provenance.get("data", {})
    own_data = demonstrations.fingerprint() == data.get("fingerprint")
    if own_data:
        demonstrations = demonstrations.select(_held_out_episodes(data))
    transitions = relabel(
        patch.world_model,
        demonstrations,
        patch.candidates,
        limits=patch.limits,
        chunk_length=patch.chunk_length,
        epsilon=patch.epsilon,
        measure=patch.measure,
        penalty=patch.provenance.get("penalty", 0.0),
        rng=np.random.default_rng(seed),
        states=CHECKED_STATES,
    )
    if len(transitions.observations) == 0:
        raise InputError("no episode is longer than one chunk")
    choices = _choices(patch, transitions)
    accelerated = transitions.accelerated

    def figures(rows: np.ndarray) -> ChoiceFigures:
        return judge_choices(transitions.rates[rows], transitions.violations[rows], choices[rows])

    return PatchCheck(
        states=len(choices),
        episodes=len(demonstrations),
        held_out=own_data,
        options=tuple(_figures(transitions, choices, r, label) for r, label in enumerate(patch.candidates.labels)),
        demonstrated=figures(~accelerated),
        accelerated=figures(accelerated) if accelerated.any() else None,
    )


def _held_out_episodes(data: Mapping[str, Any]) -> list[int]:
    """The episodes that training kept apart, as the patch says; older releases did not write them down."""
    if not data.get("held_out_episodes"):
        raise InputError(
            "the patch was trained on this data, but does not say which episodes it held out, as patches of older "
            "releases do not: train it again, or judge it on data that it has not seen"
        )
    return list(data["held_out_episodes"])


def _choices(patch: LoadedPatch, transitions: Transitions) -> np.ndarray:
    """The option with the largest Q, from the chunks already shortened."""
    positions = np.zeros(transitions.chunks.shape[:3])  # Q does not ask where a command was taken
    options = Options(transitions.chunks, positions, transitions.lengths)
    return patch.chooser.choose(transitions.observations, options)


def _figures(transitions: Transitions, choices: np.ndarray, index: int, label: str) -> OptionFigures:
    deviations: Float[np.ndarray, " N"] = transitions.deviations[:, index]
    lengths = transitions.lengths[:, index]
    return OptionFigures(
        label=label,
        violation_share=float(transitions.violations[:, index].mean()),
        deviation_median=float(np.median(deviations)),
        deviation_p95=float(np.quantile(deviations, 0.95)),
        speedup=float((transitions.rates[:, index] * lengths).sum() / lengths.sum()),
        chosen_share=float((choices == index).mean()),
    )
