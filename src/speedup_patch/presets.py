"""Named configurations: our defaults, and the paper's three settings with its own numbers."""

from dataclasses import replace

from speedup_patch.candidates import Rates
from speedup_patch.errors import InputError
from speedup_patch.pipeline import TrainingConfig
from speedup_patch.scheduler.config import SchedulerConfig
from speedup_patch.training import LoopConfig
from speedup_patch.world_model.config import WorldModelConfig


def _paper(
    *, learning_rate: float, chunk_length: int, rates: tuple[float, ...], epsilon: float, penalty: float, gamma: float
) -> TrainingConfig:
    """What the paper describes: positions only, no residual, tails dropped, turns added up, demonstrated states only.

    It does not print how long it trained; the step counts are ours.
    """
    loop = LoopConfig(steps=10000, batch_size=512, learning_rate=learning_rate, evaluate_every=1000, patience=0, seed=0)
    return TrainingConfig(
        chunk_length=chunk_length,
        choices=Rates(rates, tail="drop", rotations="sum"),
        epsilon=epsilon,
        measure="time_aligned",
        no_safe_rate="slowest",
        accelerated_starts=False,
        states=20000,
        world_model=WorldModelConfig(
            kind="gru",
            hidden=256,
            layers=3,
            horizon=24,
            velocity=False,
            residual=False,
            relative_actions=False,
            shortcut=False,
            memory=0,
            loop=loop,
        ),
        scheduler=SchedulerConfig(
            encoder="gru",
            hidden=256,
            layers=3,
            gamma=gamma,
            expectile=0.95,
            penalty=penalty,
            relative_actions=False,
            loop=loop,
        ),
    )


def _seeing(preset: TrainingConfig) -> TrainingConfig:
    """The preset with a world model that sees velocity and predicts the change since the start of the stretch."""
    return replace(preset, world_model=replace(preset.world_model, velocity=True, residual=True))


_LIBERO = _paper(learning_rate=1e-4, chunk_length=10, rates=(1.0, 2.0), epsilon=0.015, penalty=2.0, gamma=0.1)

PRESETS: dict[str, TrainingConfig] = {
    "default": TrainingConfig(),
    "bigym": _paper(learning_rate=3e-4, chunk_length=24, rates=(2.0, 3.0, 4.0), epsilon=0.015, penalty=5.0, gamma=0.9),
    "libero": _LIBERO,
    "libero-velocity": _seeing(_LIBERO),
    "real": _paper(learning_rate=1e-4, chunk_length=20, rates=(2.0, 3.0, 4.0), epsilon=0.03, penalty=1.0, gamma=0.9),
}
"""The paper gives epsilon as a range per setting; the middle of the range is taken. ``libero-velocity`` is not the
paper's: its world model sees what the paper's misses."""


def find_preset(name: str) -> TrainingConfig:
    """The configuration of this name."""
    if name not in PRESETS:
        raise InputError(f"unknown preset {name!r}; presets: {', '.join(PRESETS)}")
    return PRESETS[name]
