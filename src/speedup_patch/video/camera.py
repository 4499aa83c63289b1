"""Pictures of a MuJoCo scene, also on machines without a screen."""

# MuJoCo is a compiled module without type stubs.
# pyright: reportAttributeAccessIssue=false, reportUnknownParameterType=false

import os
import sys
from typing import Any

import mujoco
import numpy as np
from jaxtyping import UInt8

from speedup_patch.envs.stage import Stage, View
from speedup_patch.errors import InputError

SKY_TOP, SKY_BOTTOM = np.array([214.0, 222.0, 232.0]), np.array([246.0, 247.0, 249.0])
"""What shows where the scene ends: MuJoCo leaves it black."""

SHADOW_SIZE = 1024
"""Pixels of a shadow map: four times as many look no better at the size of a film, and take twice as long."""


class Camera:
    """Renders one stage, as often as asked, at one size in pixels."""

    def __init__(self, stage: Stage, width: int, height: int) -> None:
        self._stage, self._rectangle = stage, mujoco.MjrRect(0, 0, width, height)
        _light(stage)
        stage.model.vis.global_.offwidth, stage.model.vis.global_.offheight = width, height
        self._opengl = _open_context(width, height)
        self._opengl.make_current()
        self._context = mujoco.MjrContext(stage.model, mujoco.mjtFontScale.mjFONTSCALE_150.value)
        self._scene = mujoco.MjvScene(stage.model, maxgeom=5000)
        self._scene.flags[mujoco.mjtRndFlag.mjRND_REFLECTION] = 0
        self._options = mujoco.MjvOption()
        self._options.sitegroup[:] = 0
        self._options.geomgroup[list(stage.hidden_groups)] = 0
        self._view = _camera(stage)
        self._sky = np.linspace(SKY_TOP, SKY_BOTTOM, height)[:, None].astype(np.uint8)

    def render(self) -> UInt8[np.ndarray, "h w 3"]:
        """What is seen now."""
        stage, everything = self._stage, mujoco.mjtCatBit.mjCAT_ALL.value
        self._opengl.make_current()
        mujoco.mjr_setBuffer(mujoco.mjtFramebuffer.mjFB_OFFSCREEN.value, self._context)
        mujoco.mjv_updateScene(stage.model, stage.data, self._options, None, self._view, everything, self._scene)
        mujoco.mjr_render(self._rectangle, self._scene, self._context)
        height, width = self._rectangle.height, self._rectangle.width
        pixels, depth = np.empty((height, width, 3), np.uint8), np.empty((height, width), np.float32)
        mujoco.mjr_readPixels(pixels, depth, self._rectangle, self._context)
        return np.where(depth[::-1, :, None] >= 1.0, self._sky, pixels[::-1])

    def close(self) -> None:
        """Releases the graphics card's memory."""
        self._opengl.make_current()
        self._context.free()
        self._opengl.free()


def _open_context(width: int, height: int) -> Any:
    """OpenGL as MUJOCO_GL says now; where it says nothing and Linux has no screen, EGL, which needs none."""
    headless = sys.platform.startswith("linux") and not os.environ.get("DISPLAY")
    kind = os.environ.get("MUJOCO_GL", "").lower() or ("egl" if headless else "")
    try:
        # By name, because MuJoCo itself heeds MUJOCO_GL only when it is first imported.
        if kind == "egl":
            from mujoco.egl import GLContext
        elif kind == "osmesa":
            from mujoco.osmesa import GLContext
        else:
            from mujoco.gl_context import GLContext
        return GLContext(width, height)
    except (ImportError, AttributeError, RuntimeError) as error:
        raise InputError(
            f"a film needs OpenGL, which cannot be opened ({error}): set MUJOCO_GL=egl or osmesa"
        ) from error


def _light(stage: Stage) -> None:
    vis = stage.model.vis
    vis.quality.shadowsize = SHADOW_SIZE
    if stage.headlight is not None:
        vis.headlight.ambient[:] = vis.headlight.diffuse[:] = stage.headlight


def _camera(stage: Stage) -> Any:
    camera = mujoco.MjvCamera()
    if isinstance(stage.view, View):
        camera.lookat[:] = stage.view.point
        camera.distance, camera.azimuth, camera.elevation = stage.view[1:]
    else:
        camera.type, camera.fixedcamid = mujoco.mjtCamera.mjCAMERA_FIXED, stage.model.camera(stage.view).id
    return camera
