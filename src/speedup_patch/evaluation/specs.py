"""The text of a scheduler, such as ``fixed:2`` or ``without-momentum+mpc:my.patch``, taken apart.

    base                            the policy's own chunks
    fixed:RATE                      a constant rate
    PATCH                           the learned scheduler of a patch folder
    mpc:PATCH                       greedy MPC over the patch's options
    retime:PATCH                    every chunk at the demonstrated limits
    speedcap:PATCH                  the largest constant rate below the demonstrated speed
    tracked:RATE:PATCH              a constant rate with joints kept on their path and grippers read ahead
    without-RULE:PATCH              a patch without one of its rules
    with-SETTING=VALUE:PATCH        a patch with another value of one of its settings

Changes are joined by ``+``, also before mpc, retime and tracked: ``without-guard+with-overdrive=1+mpc:PATCH``. With
``dwell+`` before any of these, steps around gripper motions are not merged.
"""

from dataclasses import dataclass

from speedup_patch.errors import InputError

DWELL = "dwell+"
KINDS = ("mpc", "retime", "speedcap", "tracked")
"""What can be done with a patch other than running it."""
CHANGES = ("without-", "with-")
SPEC_HELP = (
    "base, fixed:RATE, a PATCH folder, mpc:PATCH, retime:PATCH, speedcap:PATCH, tracked:RATE:PATCH, "
    "without-RULE:PATCH, with-SETTING=VALUE:PATCH, changes joined by + as in without-guard+without-second+mpc:PATCH, "
    "or dwell+ before any of them"
)


@dataclass(frozen=True)
class SchedulerSpec:
    """What the text of a scheduler says."""

    kind: str
    """``base``, ``fixed``, ``patch`` or one of ``KINDS``."""
    patch: str | None = None
    """The folder as it is written."""
    rate: float | None = None
    changes: tuple[str, ...] = ()
    """Rules that are left out and settings that are changed, such as without-guard."""
    dwell: bool = False

    @property
    def is_patch(self) -> bool:
        """Whether it is a trained patch as it is, and no baseline."""
        return self.kind == "patch" and not self.changes and not self.dwell


def parse_spec(text: str) -> SchedulerSpec:
    """The parts of a scheduler's text; what is nothing else is taken for the folder of a patch."""
    dwell, rest = text.startswith(DWELL), text.removeprefix(DWELL)
    if rest == "base":
        return SchedulerSpec("base", dwell=dwell)
    head, _, named = rest.partition(":")
    if head == "fixed" and named:
        return SchedulerSpec("fixed", rate=_number(named, text), dwell=dwell)
    words, rate = head.split("+"), None
    kind = words.pop() if words[-1] in KINDS else "patch"
    if kind == "tracked" and named:
        number, _, named = named.partition(":")
        rate = _number(number, text)
    if named and all(word.startswith(CHANGES) for word in words):
        return SchedulerSpec(kind, named, rate, tuple(words), dwell)
    return SchedulerSpec("patch", rest, dwell=dwell)


def _number(text: str, spec: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise InputError(f"scheduler {spec!r}: {text!r} is not a number; write for example fixed:2") from None
