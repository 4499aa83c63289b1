"""How the learned scheduler is built and trained."""

from dataclasses import dataclass, field

from speedup_patch.errors import InputError
from speedup_patch.maths.cmdp import penalty_bound
from speedup_patch.scheduler.inputs import Encoder
from speedup_patch.training import LoopConfig


@dataclass(frozen=True)
class SchedulerConfig:
    """Sizes and hyperparameters of IQL; the names follow the paper."""

    encoder: Encoder = "mlp"
    """What reads the chunk: "gru" as in the paper, or "mlp", which trains many times faster on a CPU."""
    hidden: int = 128
    layers: int = 1
    """Size of every hidden layer, and how many the chunk encoder has."""
    gamma: float = 0.1
    """Discount per chunk."""
    expectile: float = 0.95
    penalty: float | None = None
    """Omega, as a positive number; None takes eight times the bound below which safety is not guaranteed, or the
    largest rate if that is more."""
    target_rate: float = 0.01
    """How far the target Q moves towards Q at each update."""
    relative_actions: bool = True
    """Commands enter as the distance from where the robot is."""
    loop: LoopConfig = field(
        default_factory=lambda: LoopConfig(
            steps=5000, batch_size=256, learning_rate=1e-3, evaluate_every=500, patience=0, seed=0
        )
    )

    def __post_init__(self) -> None:
        if not 0 <= self.gamma < 1:
            raise InputError(f"gamma must lie in [0, 1), not {self.gamma}")
        if not 0.5 <= self.expectile < 1:
            raise InputError(f"expectile must lie in [0.5, 1), not {self.expectile}: V stands for the best rate")
        if self.penalty is not None and self.penalty < 0:
            raise InputError(f"the penalty Omega is given as a positive number, not {self.penalty}")

    def resolved_penalty(self, max_rate: float) -> float:
        """Omega: the given one, or the default."""
        if self.penalty is not None:
            return self.penalty
        return max(8.0 * penalty_bound(self.gamma, max_rate), max_rate)
