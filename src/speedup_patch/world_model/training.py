"""Fits a world model to demonstrations."""

import math
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import torch
from jaxtyping import Int
from torch import Tensor

from speedup_patch.data import Demonstrations
from speedup_patch.errors import InputError
from speedup_patch.maths.poses import pose_distance, rotation_distance
from speedup_patch.observations import feature_poses
from speedup_patch.robots import Robot
from speedup_patch.training import LoopConfig, Report, adam_tensors, load_adam_tensors, silent, train
from speedup_patch.world_model.config import Kind, WorldModelConfig
from speedup_patch.world_model.model import FittedWorldModel
from speedup_patch.world_model.network import Dynamics
from speedup_patch.world_model.servo import why_no_servo
from speedup_patch.world_model.windows import Windows

EVALUATION_WINDOWS = 2048
MAX_GRADIENT_NORM = 1.0
