"""What a benchmark measures, and where its demonstrations, policies, patches and runs lie."""

from dataclasses import dataclass
from pathlib import Path

from speedup_patch.envs.strangers.spec import STRANGERS
from speedup_patch.errors import InputError

LIBERO_SUITES = ("spatial", "object", "goal", "long")
SCHEDULERS = (
    "base",
    "fixed:2",
    "fixed:3",
    "speedcap:PATCH",
    "dwell+fixed:3",
    "dwell+fixed:4",
    "mpc:PATCH",
    "PATCH",
)
"""The schedulers of the main table; PATCH stands for the suite's patch, and PAPER_PATCH for that of the paper's preset,
whose own table is the part ``paper``."""

ROBOTS = {"libero": "panda_libero", "aloha": "aloha"}
SUITES = {
    "libero": LIBERO_SUITES,
    "aloha": ("insertion", "transfer"),
    "strangers": tuple(f"{number:02d}" for number in range(STRANGERS)),
}
"""What each benchmark is run over."""


@dataclass(frozen=True)
class BenchConfig:
    """One benchmark over several suites, each suite an environment such as libero/spatial."""

    family: str = "libero"
    suites: tuple[str, ...] = LIBERO_SUITES
    """Which of ``SUITES``."""
    episodes: int | None = None
    """Per scheduler; each part's own number when None (parts.py)."""
    first_seed: int = 0
    schedulers: tuple[str, ...] = SCHEDULERS
    work: Path = Path("runs/libero")
    """Holds SUITE.npz, SUITE.patch and the other patches; runs are written here."""
    out: Path = Path("benchmarks/results/libero")
    policy: str = "bundled:{env}"
    """The base policy, with {env} or {suite} in place of names."""
    processes: int = 1
    counterfactual_episodes: int = 10
    """Episodes per driven rate of the counterfactual part."""
    epsilon: float = 0.015
    """The deviation from which on a violation is counted, where a part counts them: the paper's for LIBERO."""

    def __post_init__(self) -> None:
        if self.family not in SUITES:
            raise InputError(f"unknown benchmark {self.family!r}; known benchmarks: {', '.join(SUITES)}")
        fewest = min(1 if self.episodes is None else self.episodes, self.counterfactual_episodes)
        if fewest < 1:
            raise InputError(f"at least one episode is needed, not {fewest}")
        if unknown := set(self.suites) - set(SUITES[self.family]):
            known = ", ".join(SUITES[self.family])
            raise InputError(f"unknown suites {', '.join(sorted(unknown))}; those of {self.family} are {known}")

    @property
    def seeds(self) -> range:
        """The seeds of the episodes, whose number a part has settled."""
        assert self.episodes is not None
        return range(self.first_seed, self.first_seed + self.episodes)

    @property
    def robot_name(self) -> str:
        return ROBOTS[self.family]

    def env(self, suite: str) -> str:
        """The environment of a suite."""
        return f"{self.family}/{suite}"

    def policy_of(self, suite: str) -> str:
        """The base policy of a suite."""
        return self.policy.format(env=self.env(suite), suite=suite)

    def patch(self, suite: str, variant: str = "") -> Path:
        """The patch of a suite; variants are kept beside it, such as SUITE_paper.patch."""
        return self.work / f"{suite}{'_' if variant else ''}{variant}.patch"

    def specs(self, suite: str, schedulers: tuple[str, ...], notes: list[str]) -> dict[str, str]:
        """What `evaluate` is to run, by the name in our tables; a scheduler without its patch is noted and left out."""
        found: dict[str, str] = {}
        for label in schedulers:
            placeholder = next((name for name in ("PAPER_PATCH", "PATCH") if name in label), None)
            patch = self.patch(suite, "paper" if placeholder == "PAPER_PATCH" else "")
            if placeholder and not patch.is_dir():
                notes.append(f"{label} left out: there is no {patch}")
            else:
                found[label] = label.replace(placeholder, str(patch)) if placeholder else label
        return found
