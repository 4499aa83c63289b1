"""How a world model is built and trained."""

from dataclasses import dataclass
from typing import Literal

from speedup_patch.errors import InputError
from speedup_patch.training import LoopConfig

Kind = Literal["gru", "mlp", "servo"]

KINDS: tuple[Kind, ...] = ("gru", "mlp", "servo")

DEFAULT_LOOPS: dict[Kind, LoopConfig] = {
    "gru": LoopConfig(steps=8000, batch_size=256, learning_rate=2e-3, evaluate_every=250, patience=4, seed=0),
    "mlp": LoopConfig(steps=4000, batch_size=1024, learning_rate=1e-3, evaluate_every=250, patience=4, seed=0),
    "servo": LoopConfig(steps=400, batch_size=128, learning_rate=5e-2, evaluate_every=50, patience=0, seed=0),
}

LONGEST_HORIZON = 24
"""Control steps beyond which training does not look unless it is told to; longer chunks are foretold all the same."""


@dataclass(frozen=True)
class WorldModelConfig:
    """Which dynamics to fit, how large, and how long."""

    kind: Literal["auto", "gru", "mlp", "servo"] = "auto"
    """``auto`` takes the servo where the robot allows it, else a GRU."""
    hidden: int = 256
    layers: int = 1
    """Hidden units and layers of the networks; the paper's size is 256 and 3."""
    horizon: int | None = None
    """L_max, the longest stretch (control steps) that training looks ahead; None takes a chunk's length, at most
    ``LONGEST_HORIZON``."""
    velocity: bool = True
    """Whether the networks see the last change of x besides x."""
    residual: bool = True
    """Whether the networks predict the change since the start of the stretch instead of x itself."""
    relative_actions: bool = True
    """Whether commands that are targets enter as their distance from where the robot is."""
    shortcut: bool = True
    """Whether the GRU is left with what a linear way past it does not explain."""
    memory: int = 2
    """How many of the commands sent last the GRU sees: an arm is still answering them."""
    loop: LoopConfig | None = None
    """None takes what suits the kind (``DEFAULT_LOOPS``)."""

    def __post_init__(self) -> None:
        if self.kind not in ("auto", *KINDS):
            raise InputError(f"unknown world model {self.kind!r}; choose one of auto, {', '.join(KINDS)}")
        for name in ("hidden", "layers", "horizon"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise InputError(f"world model: {name} must be at least 1, not {value}")
        if self.memory < 0:
            raise InputError(f"world model: memory must be 0 or more commands, not {self.memory}")

    def resolved_horizon(self, chunk_length: int) -> int:
        """How far to look ahead for chunks of this length."""
        return self.horizon or min(chunk_length, LONGEST_HORIZON)

    def resolved_loop(self, kind: Kind) -> LoopConfig:
        """The training loop to run for this kind."""
        return self.loop or DEFAULT_LOOPS[kind]
