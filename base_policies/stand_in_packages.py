"""Empty stand-ins for what LeRobot imports beside ACT and ACT without cameras never calls.

They let LeRobot's ACT be trained where little more than torch and LeRobot's own files is at hand: a borrowed GPU.
"""

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType

OPTIONAL = ("datasets", "deepdiff", "imageio", "serial")
"""Stood in for where they are not installed: what LeRobot reads data sets, videos and motors with."""

REPLACED = ("lerobot.datasets", "lerobot.policies.groot")
"""Stood in for always: data sets, which we read ourselves, and a policy that does not import beside transformers 5."""


class StandIn(ModuleType):
    """A module that has every name that is asked for: a class that does nothing and can be made of anything."""

    def __getattr__(self, name: str) -> object:
        if name.startswith("__"):
            raise AttributeError(name)
        made = type(name, (), {"__init__": accept_anything})
        setattr(self, name, made)
        return made


def accept_anything(self: object, *values: object, **options: object) -> None:
    """The constructor of every class in a stand-in."""


@dataclass(frozen=True)
class StandInFinder(MetaPathFinder, Loader):
    """Imports an empty stand-in for each of these packages and everything inside them."""

    packages: tuple[str, ...]

    def find_spec(self, name: str, path: Sequence[str] | None, target: ModuleType | None = None) -> ModuleSpec | None:
        inside = any(name == package or name.startswith(package + ".") for package in self.packages)
        return ModuleSpec(name, self, is_package=True) if inside else None

    def create_module(self, spec: ModuleSpec) -> StandIn:
        return StandIn(spec.name)

    def exec_module(self, module: ModuleType) -> None:
        """A stand-in has nothing to run."""


def stand_in_for_unused_packages() -> None:
    """From here on LeRobot can be imported without them."""
    sys.meta_path.insert(0, StandInFinder(REPLACED))
    sys.meta_path.append(StandInFinder(OPTIONAL))  # asked last, so that an installed package is preferred
