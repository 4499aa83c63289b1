"""What LIBERO's experts do, task by task."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np
from jaxtyping import Float

from speedup_patch.envs.libero_furniture import push_closed, slide_drawer, turn_knob
from speedup_patch.envs.libero_hand import Hand, Motion, Pose, Target, turned
from speedup_patch.envs.libero_skills import Grasp, over, pick_and_place, shifted
from speedup_patch.envs.libero_tasks import LiberoTask
from speedup_patch.errors import InputError

X, Y, Z = (1.0, 0.0, 0.0), (0.0, 1.0, 0.0), (0.0, 0.0, 1.0)

CAN = Grasp(caution=8.0)
"""The open fingers clear a can by a few millimetres: a slanting way down ends on its rim."""

GRASPS: dict[str, Grasp] = {
    "akita_black_bowl": Grasp((0.048, 0.0, 0.035), yaw=0.3),
    "alphabet_soup": CAN,
    "tomato_sauce": CAN,
    "cream_cheese": Grasp((0.0, 0.0, 0.003), across=Y),
    "butter": Grasp((0.0, 0.0, 0.003), across=Y),
    "chocolate_pudding": Grasp((0.0, 0.0, 0.002), across=Y),
    "salad_dressing": Grasp((0.0, 0.0, 0.047), across=Z, hover=0.12),
    "ketchup": Grasp((0.0, 0.0, 0.047), across=Z, hover=0.12),
    "bbq_sauce": Grasp((0.0, 0.0, 0.01), across=Y, hover=0.11),
    "wine_bottle": Grasp((0.0, 0.0, 0.12)),
    "porcelain_mug": Grasp((0.043, 0.0, 0.085), across=Y),
    "white_yellow_mug": Grasp((0.048, 0.0, 0.085), across=Y),
    "milk": Grasp((0.0, 0.0, 0.02), across=X, hover=0.11),
    "orange_juice": Grasp((0.0, 0.0, 0.02), across=X, hover=0.11),
    "moka_pot": Grasp((0.0, -0.07, 0.045), across=X, hover=0.12),
    "black_book": Grasp((0.0, 0.012, 0.105), across=X),
}
"""How each kind of thing is taken."""

BOWL_IN_DRAWER = replace(GRASPS["akita_black_bowl"], offset=(0.022, 0.0, 0.035), yaw=np.pi / 2, hover=0.11)
"""By the side nearest to the robot, where the open fingers just fit in; the front and the cabinet hinder others."""

CREAM_CHEESE_NEAR_CAN = replace(GRASPS["cream_cheese"], offset=(0.0, -0.015, 0.003))
"""Nearer to the robot than its middle, or the palm comes down on the can behind it."""

Script = Callable[[Hand], Motion]


def kind(name: str) -> str:
    """What a thing is, without its number."""
    return name.rsplit("_", 1)[0]


def into_basket(name: str, grasp: Grasp | None = None, level: bool = False) -> Script:
    """Drops a thing into the basket from just above its rim."""
    return put(name, "basket_1", clearance=0.25, lowest=0.15, height=0.2, retreat=0.16, grasp=grasp, level=level)


def put(
    name: str,
    goal: str,
    lowest: float = 0.01,
    clearance: float = 0.06,
    height: float = 0.1,
    retreat: float = 0.08,
    grasp: Grasp | None = None,
    level: bool = False,
    shift: tuple[float, float, float] = (0.0, 0.0, 0.0),
    rotation: Float[np.ndarray, "3 3"] | None = None,
) -> Script:
    """Picks a thing up and puts its origin ``lowest`` metres above that of ``goal`` and ``shift`` metres from there,
    the hand turned to ``rotation``."""

    def script(hand: Hand) -> Motion:
        taken, place = grasp or GRASPS[kind(name)], shifted(over(hand, goal), np.array(shift))
        return pick_and_place(hand, name, taken, place, clearance, lowest, height, retreat, level, rotation)

    return script


def one_after_the_other(*scripts: Script) -> Script:
    """Does the first, then the next, each for one of the task's goals; leaves out what is done already."""

    def script(hand: Hand) -> Motion:
        for number, part in enumerate(scripts):
            if not hand.achieved()[number]:
                yield from part(hand)

    return script


BOWL = "akita_black_bowl_1"
CABINET = "wooden_cabinet_1"

HANDLE_HEIGHTS = {"top": 0.184, "middle": 0.110, "bottom": 0.040}
DRAWER_OPEN, DRAWER_SHUT = -0.148, 0.001
KNOB_ON = 0.6


def drawer_handle(hand: Hand, cabinet: str, level: str, rotation: Float[np.ndarray, "3 3"]) -> Target:
    """The hand's pose at the bar of a drawer's handle; drawers slide along the cabinet's own y axis."""

    def target() -> Pose:
        pose = hand.see(cabinet)
        local = np.array([-0.003, -0.1016 + hand.joint(f"{cabinet}_{level}_level"), HANDLE_HEIGHTS[level]])
        return Pose(pose.position + pose.rotation @ local, rotation)

    return target


def open_drawer(cabinet: str, level: str) -> Script:
    """Pulls a drawer open, the hand lying nearly level."""

    def script(hand: Hand) -> Motion:
        outwards = -hand.see(cabinet).rotation[:, 1]
        handle = drawer_handle(hand, cabinet, level, turned(0.0, tilt=-1.3))
        return slide_drawer(hand, handle, f"{cabinet}_{level}_level", DRAWER_OPEN, outwards)

    return script


def shut_drawer(cabinet: str, level: str) -> Script:
    """Pushes a drawer shut by its handle with closed fingers, the hand leaning back from the cabinet."""

    def script(hand: Hand) -> Motion:
        inwards = hand.see(cabinet).rotation[:, 1]
        handle = drawer_handle(hand, cabinet, level, turned(np.pi / 2, pitch=-0.5))
        return push_closed(hand, handle, f"{cabinet}_{level}_level", DRAWER_SHUT, inwards)

    return script


def bowl_into_drawer_and_shut_it(hand: Hand) -> Motion:
    """Puts the bowl into the open bottom drawer, unless it is in it, and shuts the drawer."""
    _, inside = hand.achieved()
    if not inside:
        region = "white_cabinet_1_bottom_region"
        yield from put(BOWL, region, lowest=0.0, grasp=BOWL_IN_DRAWER, clearance=0.12, height=0.16)(hand)
    yield from shut_drawer("white_cabinet_1", "bottom")(hand)


def turn_on_stove(hand: Hand) -> Motion:
    """Pushes the pointer of the stove's knob aside; the hand leans away from the robot's base, which is near."""

    def near_knob(sideways: float) -> Target:
        def target() -> Pose:
            pose = hand.see("flat_stove_1")
            return Pose(pose.position + pose.rotation @ np.array([0.042, sideways, 0.035]), turned(0.0, pitch=0.5))

        return target

    return turn_knob(hand, near_knob(-0.065), near_knob(0.09), "flat_stove_1_button", KNOB_ON)


OBJECTS = (
    "alphabet_soup", "cream_cheese", "salad_dressing", "bbq_sauce", "ketchup",
    "tomato_sauce", "butter", "milk", "chocolate_pudding", "orange_juice",
)  # fmt: skip

SCRIPTS: dict[str, Script] = {
    **{f"libero/spatial/{index}": put(BOWL, "plate_1") for index in range(10)},
    "libero/spatial/4": put(BOWL, "plate_1", height=0.13, grasp=BOWL_IN_DRAWER),
    **{f"libero/object/{index}": into_basket(f"{name}_1") for index, name in enumerate(OBJECTS)},
    "libero/object/1": into_basket("cream_cheese_1", CREAM_CHEESE_NEAR_CAN),
    "libero/goal/0": open_drawer(CABINET, "middle"),
    "libero/goal/1": put(BOWL, "flat_stove_1_cook_region", lowest=0.035),
    "libero/goal/2": put("wine_bottle_1", f"{CABINET}_top_side", lowest=0.012, height=0.25),
    "libero/goal/4": put(BOWL, f"{CABINET}_top_side", lowest=0.012, height=0.28),
    "libero/goal/6": put("cream_cheese_1", BOWL, lowest=0.07, clearance=0.1),
    "libero/goal/7": turn_on_stove,
    "libero/goal/8": put(BOWL, "plate_1"),
    "libero/long/0": one_after_the_other(into_basket("alphabet_soup_1"), into_basket("tomato_sauce_1", level=True)),
    "libero/long/1": one_after_the_other(
        into_basket("cream_cheese_1", level=True), into_basket("butter_1", level=True)
    ),
    "libero/long/2": one_after_the_other(
        turn_on_stove, put("moka_pot_1", "flat_stove_1_cook_region", lowest=0.095, clearance=0.15)
    ),
    "libero/long/3": bowl_into_drawer_and_shut_it,
    "libero/long/4": one_after_the_other(put("porcelain_mug_1", "plate_1"), put("white_yellow_mug_1", "plate_2")),
    "libero/long/5": put(
        "black_book_1",
        "desk_caddy_1_back_contain_region",
        lowest=-0.05,
        clearance=0.13,
        height=0.25,
        rotation=turned(np.pi / 2),
    ),
    "libero/long/6": one_after_the_other(
        put("porcelain_mug_1", "plate_1"), put("chocolate_pudding_1", "living_room_table_plate_right_region", 0.02)
    ),
    "libero/long/7": one_after_the_other(into_basket("alphabet_soup_1"), into_basket("cream_cheese_1", level=True)),
    "libero/long/8": one_after_the_other(
        put("moka_pot_1", "flat_stove_1_cook_region", lowest=0.095, clearance=0.17, shift=(-0.05, 0.0, 0.0)),
        put("moka_pot_2", "flat_stove_1_cook_region", lowest=0.095, clearance=0.17, shift=(0.05, 0.0, 0.0)),
    ),
}
"""The script of every task that has one, by the task's name."""


def has_script(task: LiberoTask) -> bool:
    """Whether there is an expert for this task."""
    return task.name in SCRIPTS


def find_script(task: LiberoTask) -> Script:
    """What the expert does in this task."""
    if not has_script(task):
        have = ", ".join(name.removeprefix("libero/") for name in SCRIPTS)
        raise InputError(f"no scripted expert for {task.name} ({task.instruction!r}); there is one for: {have}")
    return SCRIPTS[task.name]
