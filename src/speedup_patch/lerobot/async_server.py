"""LeRobot's asynchronous policy server with a patch: ``python -m speedup_patch.lerobot.async_server --patch DIR``."""

# LeRobot is not in the type checker's environment.
# pyright: reportMissingImports=false, reportUnknownParameterType=false, reportUntypedBaseClass=false

import logging
import sys
from collections import deque
from concurrent import futures
from pathlib import Path
from typing import Any

import grpc
import numpy as np
import torch
import tyro
from jaxtyping import Float
from lerobot.async_inference.configs import PolicyServerConfig
from lerobot.async_inference.helpers import TimedAction, TimedObservation, make_lerobot_observation
from lerobot.async_inference.policy_server import PolicyServer
from lerobot.transport import services_pb2_grpc
from lerobot.utils.constants import OBS_STATE
from torch import Tensor

from speedup_patch.errors import InputError
from speedup_patch.lerobot.base_policies import keeps_history, refuse_without_chunks
from speedup_patch.runtime.accelerator import ChunkAccelerator
from speedup_patch.runtime.engine import load_engine

LOGGER = logging.getLogger("speedup_patch")
LOOPBACK = ("127.0.0.1", "::1", "localhost")
REMEMBERED = 32
"""Observations to keep, for the one a control step earlier."""


class PatchedPolicyServer(PolicyServer):
    """A PolicyServer for one robot client that delivers shortened chunks; everything else is LeRobot's.

    The client must replace overlapping actions (``aggregate_fn_name=latest_only``): averaging actions of chunks that
    run at different rates mixes different moments of the motion.
    """

    def __init__(self, config: PolicyServerConfig, accelerator: ChunkAccelerator) -> None:
        super().__init__(config)
        self.accelerator = accelerator
        self._seen: deque[TimedObservation] = deque(maxlen=REMEMBERED)

    def Ready(self, request: Any, context: Any) -> Any:  # noqa: N802
        """A client connects, or begins anew."""
        answer = super().Ready(request, context)
        self.accelerator.reset()
        self._seen.clear()
        return answer

    def SendPolicyInstructions(self, request: Any, context: Any) -> Any:  # noqa: N802
        """Loads the policy that the client names, and refuses one that the patch does not fit."""
        answer = super().SendPolicyInstructions(request, context)
        if self.policy is None:
            return answer
        try:
            self._refuse_misfit()
        except InputError as error:
            self.policy = None
            context.abort(grpc.StatusCode.INVALID_ARGUMENT, str(error))
        return answer

    def _refuse_misfit(self) -> None:
        refuse_without_chunks(self.policy)
        if keeps_history(self.policy):
            raise InputError(
                f"a {self.policy_type} policy needs past observations, which LeRobot's asynchronous server does not "
                "collect: run it in a loop that calls select_action"
            )
        length = self.accelerator.engine.chunk_length
        if length is not None and self.actions_per_chunk != length:
            raise InputError(
                f"the client asks for actions_per_chunk={self.actions_per_chunk}, but the patch was trained for "
                f"chunks of {length}: set actions_per_chunk to {length}, or train a patch for it"
            )

    def _enqueue_observation(self, obs: TimedObservation) -> bool:
        self._seen.append(obs)
        return super()._enqueue_observation(obs)

    def _time_action_chunk(self, t_0: float, action_chunk: list[Tensor], i_0: int) -> list[TimedAction]:
        chunk = torch.stack(action_chunk)
        observation = self.last_processed_obs
        assert observation is not None  # LeRobot sets it before it times the chunk
        state, previous = self._state(observation), self._state_one_step_before(observation)
        actions = self.accelerator.shorten(chunk.to(torch.float64).numpy(), state, previous).actions
        # LeRobot numbers the first action like the last one executed, and its client drops what is not newer. That is
        # one action of an original chunk; the first of a shortened one stands for several.
        first = i_0 + 1 if len(actions) < len(chunk) else i_0
        return super()._time_action_chunk(t_0, list(torch.from_numpy(actions).to(chunk.dtype)), first)

    def _state(self, observation: TimedObservation) -> Float[np.ndarray, " S"]:
        named = make_lerobot_observation(observation.get_observation(), self.lerobot_features)
        return np.asarray(named[OBS_STATE], dtype=np.float64)

    def _state_one_step_before(self, observation: TimedObservation) -> Float[np.ndarray, " S"] | None:
        """Tells the velocity, when the client happened to send an observation one control step earlier."""
        for earlier in list(self._seen):
            steps = (observation.get_timestamp() - earlier.get_timestamp()) / self.config.environment_dt
            if 0.5 < steps < 1.5:
                return self._state(earlier)
        return None


def start_server(servicer: PolicyServer, host: str, port: int) -> tuple[grpc.Server, int]:
    """A running gRPC server and its port, which is a free one when ``port`` is 0."""
    server = grpc.server(futures.ThreadPoolExecutor(max_workers=4))
    services_pb2_grpc.add_AsyncInferenceServicer_to_server(servicer, server)
    bound = server.add_insecure_port(f"{host}:{port}")
    server.start()
    return server, bound


def serve(
    patch: Path,
    *,
    host: str = "127.0.0.1",
    port: int = 8080,
    fps: int = 30,
    max_rate: float | None = None,
    deadline: float | None = None,
) -> None:
    """Run LeRobot's asynchronous policy server with a patch.

    Start LeRobot's robot client as usual, with --aggregate_fn_name=latest_only and --actions_per_chunk set to the chunk
    length of the patch. LeRobot's client and server exchange pickles, which run code when they are read: let nobody
    but the robot reach this port.

    Args:
        patch: Folder of the trained patch.
        host: Address to listen on.
        port: Port to listen on.
        fps: Control steps a second.
        max_rate: Never run faster than this many original actions per command sent.
        deadline: Seconds a decision may take before the original chunk is delivered instead.
    """
    accelerator = ChunkAccelerator(load_engine(patch), max_rate=max_rate, deadline=deadline)
    if host not in LOOPBACK:
        LOGGER.warning("LeRobot's protocol runs code from whoever connects: %s must not be an open network", host)
    server, bound = start_server(PatchedPolicyServer(PolicyServerConfig(fps=fps), accelerator), host, port)
    print(f"policy server with {patch} on {host}:{bound}", flush=True)
    server.wait_for_termination()


def main() -> None:
    """Entry point of ``python -m``."""
    try:
        tyro.cli(serve, prog="async_server")
    except InputError as error:
        print(f"async_server: {error}", file=sys.stderr)
        sys.exit(2)


if __name__ == "__main__":
    main()
