"""LIBERO's four suites of ten tasks by name, without importing LIBERO.

``libero/spatial/3`` is one task; ``libero/spatial`` is the suite, where the seed picks the task.
"""

import re
from dataclasses import dataclass
from typing import Literal

from speedup_patch.errors import InputError

Suite = Literal["spatial", "object", "goal", "long"]

DOUBLE_GRIPPER = "+double_gripper"
"""Added to an environment's name, it doubles the gripper's speed, as the paper does in LIBERO."""

MAX_STEPS: dict[Suite, int] = {"spatial": 600, "object": 600, "goal": 600, "long": 900}
"""Control steps before an attempt counts as failed: LIBERO's own ``eval.max_steps`` of 600; half as much again in the
long suite, so that two careful pick-and-places fit into the share that demonstrations may take (see collect.py)."""

SUITE_FOLDERS: dict[Suite, str] = {
    "spatial": "libero_spatial",
    "object": "libero_object",
    "goal": "libero_goal",
    "long": "libero_10",
}

TASK_FILES: dict[Suite, tuple[str, ...]] = {
    "spatial": tuple(
        f"pick_up_the_black_bowl_{place}_and_place_it_on_the_plate"
        for place in (
            "between_the_plate_and_the_ramekin",
            "next_to_the_ramekin",
            "from_table_center",
            "on_the_cookie_box",
            "in_the_top_drawer_of_the_wooden_cabinet",
            "on_the_ramekin",
            "next_to_the_cookie_box",
            "on_the_stove",
            "next_to_the_plate",
            "on_the_wooden_cabinet",
        )
    ),
    "object": tuple(
        f"pick_up_the_{thing}_and_place_it_in_the_basket"
        for thing in (
            "alphabet_soup",
            "cream_cheese",
            "salad_dressing",
            "bbq_sauce",
            "ketchup",
            "tomato_sauce",
            "butter",
            "milk",
            "chocolate_pudding",
            "orange_juice",
        )
    ),
    "goal": (
        "open_the_middle_drawer_of_the_cabinet",
        "put_the_bowl_on_the_stove",
        "put_the_wine_bottle_on_top_of_the_cabinet",
        "open_the_top_drawer_and_put_the_bowl_inside",
        "put_the_bowl_on_top_of_the_cabinet",
        "push_the_plate_to_the_front_of_the_stove",
        "put_the_cream_cheese_in_the_bowl",
        "turn_on_the_stove",
        "put_the_bowl_on_the_plate",
        "put_the_wine_bottle_on_the_rack",
    ),
    "long": (
        "LIVING_ROOM_SCENE2_put_both_the_alphabet_soup_and_the_tomato_sauce_in_the_basket",
        "LIVING_ROOM_SCENE2_put_both_the_cream_cheese_box_and_the_butter_in_the_basket",
        "KITCHEN_SCENE3_turn_on_the_stove_and_put_the_moka_pot_on_it",
        "KITCHEN_SCENE4_put_the_black_bowl_in_the_bottom_drawer_of_the_cabinet_and_close_it",
        "LIVING_ROOM_SCENE5_put_the_white_mug_on_the_left_plate_and_put_the_yellow_and_white_mug_on_the_right_plate",
        "STUDY_SCENE1_pick_up_the_book_and_place_it_in_the_back_compartment_of_the_caddy",
        "LIVING_ROOM_SCENE6_put_the_white_mug_on_the_plate_and_put_the_chocolate_pudding_to_the_right_of_the_plate",
        "LIVING_ROOM_SCENE1_put_both_the_alphabet_soup_and_the_cream_cheese_box_in_the_basket",
        "KITCHEN_SCENE8_put_both_moka_pots_on_the_stove",
        "KITCHEN_SCENE6_put_the_yellow_and_white_mug_in_the_microwave_and_close_it",
    ),
}
"""The tasks in LIBERO's order, as its files are called."""


@dataclass(frozen=True)
class LiberoTask:
    """One of the forty tasks."""

    suite: Suite
    index: int

    @property
    def name(self) -> str:
        return f"libero/{self.suite}/{self.index}"

    @property
    def file(self) -> str:
        """The task's file name in LIBERO, without its ending."""
        return TASK_FILES[self.suite][self.index]

    @property
    def instruction(self) -> str:
        """LIBERO's language for the task, the text that its policies are given."""
        return re.sub(r"^[A-Z_]+SCENE\d+_", "", self.file).replace("_", " ")


TASKS: tuple[LiberoTask, ...] = tuple(
    LiberoTask(suite, index) for suite, files in TASK_FILES.items() for index in range(len(files))
)


LEARNED: dict[Suite, tuple[int, ...]] = {
    "spatial": tuple(range(10)),
    "object": tuple(range(10)),
    "goal": (0, 1, 2, 4, 6, 7, 8),
    "long": (0, 4, 6, 7),
}
"""The tasks that the bundled policies were trained on, by their number. A suite is evaluated on these; its
demonstrations are of every task with an expert (libero_scripts.py), so that the next policies learn all of them."""


def is_learned(task: LiberoTask) -> bool:
    """Whether the bundled policy of the suite knows this task."""
    return task.index in LEARNED[task.suite]


@dataclass(frozen=True)
class LiberoName:
    """What an environment's name asks for; ``index`` None means the whole suite."""

    suite: Suite
    index: int | None
    double_gripper: bool

    @property
    def tasks(self) -> tuple[LiberoTask, ...]:
        """The tasks that seeds choose from."""
        return tuple(task for task in TASKS if task.suite == self.suite and self.index in (None, task.index))


def parse_name(name: str) -> LiberoName:
    """``libero/SUITE`` or ``libero/SUITE/TASK``, optionally with ``+double_gripper``."""
    plain = name.removesuffix(DOUBLE_GRIPPER)
    for suite in TASK_FILES:
        if plain == f"libero/{suite}":
            return LiberoName(suite, None, plain != name)
    for task in TASKS:
        if plain == task.name:
            return LiberoName(task.suite, task.index, plain != name)
    raise InputError(
        f"unknown environment {name!r}; LIBERO's are libero/SUITE and libero/SUITE/0 .. libero/SUITE/9 with SUITE one "
        f"of {', '.join(TASK_FILES)}, and any of them with {DOUBLE_GRIPPER} added"
    )
