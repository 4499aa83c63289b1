"""What a patched robot did, read back from its decision log and judged by the patch's own world model."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Int

from speedup_patch.errors import InputError
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
    """Original actions per executed action, over the whole log."""
    fallbacks: dict[str, int]
    """How often the original chunk ran, by reason."""
    executed_at: dict[str, int]
    """Decisions by the number of actions that were executed."""
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
    observations = np.stack([decision.observation for decision in decisions])
    chunks = np.stack([decision.chunk for decision in decisions])
    memory = patch.world_model.memory
    unknown = no_commands(1, memory, patch.robot.action_size)[0]
    before = np.stack([decision.before if len(decision.before) == memory else unknown for decision in decisions])
    predicted = predict_counterfactuals(
        patch.world_model, observations, chunks, patch.candidates, patch.measure, patch.limits, before
    )
    violations = find_violations(predicted.deviations, patch.epsilon)
    executed = np.array([decision.executed for decision in decisions])
    shortened = executed < patch.chunk_length
    # A rate that was capped by hand lies between two of the patch's own; the faster of them is judged.
    lengths = predicted.options.lengths
    nearest = np.array([_option_of_length(row, int(count)) for row, count in zip(lengths, executed, strict=True)])
    violating = violations[np.arange(len(executed)), nearest][shortened]
    seconds = np.array([decision.seconds for decision in decisions])
    rates = predicted.options.rates(patch.chunk_length)
    return LogCheck(
        decisions=len(decisions),
        speedup=float(len(decisions) * patch.chunk_length / executed.sum()),
        fallbacks=dict(Counter(decision.reason for decision in decisions if decision.reason)),
        executed_at={str(count): int((executed == count).sum()) for count in np.unique(executed)},
        seconds_p50=float(np.quantile(seconds, 0.5)),
        seconds_p99=float(np.quantile(seconds, 0.99)),
        violating=float(violating.mean()) if len(violating) else 0.0,
        greedy_rate_mean=float(rates[np.arange(len(rates)), greedy_index(rates, violations)].mean()),
    )


def _option_of_length(lengths: Int[np.ndarray, " R"], rows: int) -> int:
    """The option that gives this many rows, or the nearest that gives fewer; the bolder where two give as many."""
    most = lengths[lengths <= max(rows, int(lengths.min()))].max()
    return int(np.flatnonzero(lengths == most)[-1])


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
        f"{check.decisions} decisions, {check.speedup:.2f} original actions per executed one "
        f"(greedy MPC would have chosen rate {check.greedy_rate_mean:.2f} on average)",
        f"shortened chunks beyond the tolerance: {check.violating:.2%}",
        f"a decision took {1e3 * check.seconds_p50:.2f} ms (p99 {1e3 * check.seconds_p99:.2f} ms)",
    ]
    reasons = ", ".join(f"{reason} {count}" for reason, count in check.fallbacks.items())
    return [*lines, f"original chunk returned: {reasons or 'never'}"]
