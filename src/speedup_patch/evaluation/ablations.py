"""A patch with some of its rules left out or its settings changed, to measure what each of them is worth.

Nothing is trained again: the critic judges the options that are left. A rule that a patch does not follow on its robot
cannot be left out of it, so that no row of a table is the patch itself under another name.
"""

from collections.abc import Sequence
from dataclasses import asdict, replace
from typing import Any, get_args

from speedup_patch.candidates import Retimings
from speedup_patch.errors import InputError
from speedup_patch.evaluation.rules import RULES, Variant, change_retiming, change_tuning, rules_of
from speedup_patch.relabel import Measure
from speedup_patch.runtime.patch_folder import LoadedPatch

WITHOUT, WITH = "without-", "with-"
RETIMING = "retiming"
PLACES = (RETIMING, "watch", "deviation")
"""Where a patch keeps its settings: ``RetimingConfig``, and the parts of ``Tuning``."""
TOLERANCE = ("epsilon", "measure")
"""Settings of the patch itself: the second opinion and MPC go by them."""


def change_patch(patch: LoadedPatch, changes: Sequence[str]) -> Variant:
    """The patch with these changes, such as ``without-guard`` or ``with-overdrive=1``, one after the other."""
    variant = Variant(patch)
    for change in changes:
        variant = _without(variant, change) if change.startswith(WITHOUT) else _with(variant, change)
    return variant


def _without(variant: Variant, change: str) -> Variant:
    rule = RULES.get(change.removeprefix(WITHOUT))
    if rule is None or not rule.applies(variant.patch):
        wrong = "is no rule of this patch" if rule else "is no rule"
        raise InputError(f"{change}: that {wrong}; its rules are {', '.join(rules_of(variant.patch))}")
    return rule.leave_out(variant)


def _with(variant: Variant, change: str) -> Variant:
    """The patch with another value of one setting: of its retiming, its tuning or its tolerance."""
    name, _, text = change.removeprefix(WITH).partition("=")
    field, patch = name.replace("-", "_"), variant.patch
    places = {place: _settings(patch, place) for place in PLACES}
    place = next((place for place, settings in places.items() if field in settings), None)
    if field in TOLERANCE:
        changed = replace(patch, **{field: _tolerance(field, text, change)})
    elif place is None:
        known = [*TOLERANCE, *(setting for settings in places.values() for setting in settings)]
        names = ", ".join(setting.replace("_", "-") for setting in known)
        raise InputError(f"{change}: {name!r} is no setting of this patch; its settings are {names}")
    else:
        value = {field: _value(text, places[place][field], change)}
        changed = change_retiming(patch, **value) if place == RETIMING else change_tuning(patch, place, **value)
    if (
        field == "joint_lead"
        and text == "on"
        and not any(isinstance(delay, float) for delay in changed.candidates.delays.values())
    ):
        raise InputError(
            f"{change}: only joints with measured lags that are not kept on their path can be read ahead; write "
            "without-path-tracking+with-joint-lead=on where there are such"
        )
    return replace(variant, patch=changed)


def _settings(patch: LoadedPatch, place: str) -> dict[str, Any]:
    """The settings of one place, by name; none where the patch does not retime."""
    if not isinstance(patch.choices, Retimings):
        return {}
    return asdict(patch.choices.common if place == RETIMING else getattr(patch.limits.tuning, place))


def _tolerance(field: str, text: str, change: str) -> float | str:
    if field == "epsilon":
        epsilon = _value(text, 0.0, change)
        if not epsilon > 0:
            raise InputError(f"{change}: epsilon must be positive")
        return epsilon
    if text not in get_args(Measure):
        raise InputError(f"{change}: a measure is one of {', '.join(get_args(Measure))}")
    return text


def _value(text: str, now: bool | int | float, change: str) -> bool | int | float:
    """What ``text`` says, of the kind that the setting has now."""
    if isinstance(now, bool):
        if text not in ("on", "off"):
            raise InputError(f"{change}: this setting is on or off, not {text!r}")
        return text == "on"
    try:
        return int(text) if isinstance(now, int) else float(text)
    except ValueError:
        kind = "a whole number" if isinstance(now, int) else "a number"
        raise InputError(f"{change}: {text!r} is not {kind}") from None
