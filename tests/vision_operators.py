"""Lets torchvision be imported where its compiled operators are built for another torch, as in the LeRobot tests."""

import torch

_declared: list[torch.library.Library] = []  # kept: the declarations vanish with the object that made them


def declare_missing_operators() -> None:
    """Declares the two operators that ``import torchvision`` asks for; nothing in these tests calls them."""
    if hasattr(torch.ops.torchvision, "nms"):
        return
    library = torch.library.Library("torchvision", "FRAGMENT")
    for name in ("nms", "qnms"):
        library.define(f"{name}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
    _declared.append(library)
