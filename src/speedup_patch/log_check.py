"""What a patched robot did, read back from its decision log and judged by the patch's own world model."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from speedup_patch.errors import InputError
from speedup_patch.evaluation.deviations import TakenDecision, deviations_of, patch_judge
from speedup_patch.maths.cmdp import greedy_index
from speedup_patch.observations import no_commands
from speedup_patch.relabel import find_violations, predict_counterfactuals
from speedup_patch.runtime.decision_log import LoggedDecision
from speedup_patch.runtime.patch_folder import LoadedPatch


@dataclass(frozen=True)
class LogCheck:
    """A decision log at a glance."""

    decisions: int
    speedup: float
    """Original actions done per command sent, over the whole log."""
    shortened: int
    """Decisions whose commands stand for more than one original action each."""
    cut_short: int
    """Decisions of which only the chunk's beginning was sent, shortened or not."""
    fallbacks: dict[str, int]
    """How often the original chunk ran, by reason."""
    executed_at: dict[str, int]
    """Decisions by the number of commands that were sent."""
    seconds_p50: float
    seconds_p99: float
    violating: float
    """Share of the shortened chunks whose predicted deviation exceeds the tolerance."""
    greedy_rate_mean: float
    """The mean rate that greedy MPC would have chosen at the same moments."""


def check_log(patch: LoadedPatch, decisions: Sequence[LoggedDecision]) -> LogCheck:
    """Judges every logged decision; a log of another robot or chunk length is refused."""
    if not decisions:
        raise InputError("the decision log holds no decisions")
    _refuse_others(patch, decisions)
    taken = _taken(patch, decisions)
    predicted = predict_counterfactuals(
        patch.world_model,
        np.stack([decision.observation for decision in taken]),
        np.stack([decision.chunk for decision in taken]),
        patch.candidates,
        patch.measure,
        patch.limits,
        np.stack([decision.before for decision in taken]),
    )
    rates = predicted.options.rates(patch.chunk_length)
    greedy = greedy_index(rates, find_violations(predicted.deviations, patch.epsilon))
    shortened = [decision for decision in taken if decision.shortened]
    violating = find_violations(deviations_of(patch_judge(patch), shortened), patch.epsilon)
    executed, done = (np.array([getattr(decision, name) for decision in decisions]) for name in ("executed", "done"))
    seconds = np.array([decision.seconds for decision in decisions])
    return LogCheck(
        decisions=len(decisions),
        speedup=float(done.sum() / executed.sum()),
        shortened=len(shortened),
        cut_short=int((done < patch.chunk_length).sum()),
        fallbacks=dict(Counter(decision.reason for decision in decisions if decision.reason)),
        executed_at={str(count): int((executed == count).sum()) for count in np.unique(executed)},
        seconds_p50=float(np.quantile(seconds, 0.5)),
        seconds_p99=float(np.quantile(seconds, 0.99)),
        violating=float(violating.mean()) if len(violating) else 0.0,
        greedy_rate_mean=float(rates[np.arange(len(rates)), greedy].mean()),
    )


def _taken(patch: LoadedPatch, decisions: Sequence[LoggedDecision]) -> list[TakenDecision]:
    """The decisions as they are judged; one logged without the patch's world model knows no commands before it."""
    memory = patch.world_model.memory
    unknown = no_commands(1, memory, patch.robot.action_size)[0]
    return [
        TakenDecision(
            decision.observation,
            decision.chunk,
            decision.before if len(decision.before) == memory else unknown,
            decision.positions,
            decision.commands,
        )
        for decision in decisions
    ]


def _refuse_others(patch: LoadedPatch, decisions: Sequence[LoggedDecision]) -> None:
    inputs = patch.chooser.inputs
    expected = (len(inputs.observation.mean), (patch.chunk_length, patch.robot.action_size))
    for number, decision in enumerate(decisions):
        found = (len(decision.observation), decision.chunk.shape)
        if found != expected:
            raise InputError(
                f"decision {number} of the log has observation and chunk sizes {found}, but the patch of robot "
                f"{patch.robot.name!r} has {expected}: the log belongs to another patch"
            )


def log_lines(check: LogCheck) -> list[str]:
    """The log in words."""
    lines = [
        f"{check.decisions} decisions, {check.speedup:.2f} original actions done per command sent "
        f"(greedy MPC would have chosen rate {check.greedy_rate_mean:.2f} on average)",
        f"{check.shortened} chunks were shortened, {check.violating:.2%} of them beyond the tolerance; of "
        f"{check.cut_short} only the beginning was sent",
        f"a decision took {1e3 * check.seconds_p50:.2f} ms (p99 {1e3 * check.seconds_p99:.2f} ms)",
    ]
    reasons = ", ".join(f"{reason} {count}" for reason, count in check.fallbacks.items())
    return [*lines, f"original chunk returned: {reasons or 'never'}"]
