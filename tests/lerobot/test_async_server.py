"""LeRobot's robot client, unchanged, against the policy server with a patch (run with ``make test-lerobot``)."""

import importlib
import logging
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("lerobot.datasets", reason="needs the LeRobot environment")
from vision_operators import declare_missing_operators  # noqa: E402

declare_missing_operators()
from small_lerobot import CAMERA, fixed_engine, save_checkpoint, small_act, small_diffusion  # noqa: E402
from speedup_patch.errors import InputError  # noqa: E402
from speedup_patch.robots import ALOHA  # noqa: E402
from speedup_patch.runtime.accelerator import ChunkAccelerator  # noqa: E402
from speedup_patch.runtime.engine import Engine  # noqa: E402
from stand_ins import START  # noqa: E402

pytestmark = pytest.mark.lerobot

JOINTS = tuple(f"{name}.pos" for name in ALOHA.state_names)


class LaggingRobot:
    """What the client asks of a robot: joints that close 40% of the gap to their command at each step, and a camera."""

    observation_features = dict.fromkeys(JOINTS, float) | {"top": (32, 32, 3)}
    action_features = dict.fromkeys(JOINTS, float)

    def __init__(self) -> None:
        self.state = START.copy()
        self.seen: list[np.ndarray] = []
        self.sent: list[np.ndarray] = []

    def connect(self) -> None:
        pass

    def disconnect(self) -> None:
        pass

    def get_observation(self) -> dict[str, Any]:
        self.seen.append(self.state.copy())
        return dict(zip(JOINTS, self.state.tolist(), strict=True)) | {"top": np.full((32, 32, 3), 90, np.uint8)}

    def send_action(self, action: dict[str, float]) -> dict[str, float]:
        command = np.array(list(action.values()))
        self.sent.append(command)
        self.state = self.state + 0.4 * (command - self.state)
        return action


@pytest.fixture(scope="session", autouse=True)
def _lerobot_logs(tmp_path_factory: pytest.TempPathFactory) -> None:
    """LeRobot makes a folder of logs where it is imported, and takes the root logger for itself."""
    root = logging.getLogger()
    handlers, level = list(root.handlers), root.level
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(tmp_path_factory.mktemp("logs"))
        importlib.import_module("lerobot.async_inference.robot_client")
        importlib.import_module("lerobot.async_inference.policy_server")
    root.handlers, root.level = handlers, level


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_checkpoint(small_act(camera=(3, 32, 32)), tmp_path_factory.mktemp("policy"))


Connect = Callable[..., Any]


@pytest.fixture
def connect(checkpoint: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Connect]:
    """Starts a server for an engine, and LeRobot's client for a robot, on loopback."""
    from lerobot.async_inference import robot_client
    from lerobot.async_inference.configs import PolicyServerConfig, RobotClientConfig
    from lerobot.robots.config import RobotConfig

    from speedup_patch.lerobot.async_server import PatchedPolicyServer, start_server

    running: list[Callable[[], None]] = []

    def begin(
        engine: Engine,
        robot: LaggingRobot,
        *,
        actions_per_chunk: int = 24,
        policy_type: str = "act",
        folder: Path = checkpoint,
        max_rate: float | None = None,
    ) -> Any:
        config = PolicyServerConfig(fps=50, obs_queue_timeout=0.2, inference_latency=0.0)
        server, port = start_server(
            PatchedPolicyServer(config, ChunkAccelerator(engine, max_rate=max_rate)), "127.0.0.1", 0
        )
        running.append(lambda: server.stop(grace=None).wait())
        monkeypatch.setattr(robot_client, "make_robot_from_config", lambda _: robot)
        client = robot_client.RobotClient(
            RobotClientConfig(
                policy_type=policy_type,
                pretrained_name_or_path=str(folder),
                robot=RobotConfig(),
                actions_per_chunk=actions_per_chunk,
                server_address=f"127.0.0.1:{port}",
                chunk_size_threshold=0.0,
                fps=50,
                aggregate_fn_name="latest_only",
            )
        )
        running.append(client.stop)
        return client

    yield begin
    for stop in reversed(running):
        stop()


def _idle_server() -> Any:
    from lerobot.async_inference.configs import PolicyServerConfig

    from speedup_patch.lerobot.async_server import PatchedPolicyServer

    server = PatchedPolicyServer(PolicyServerConfig(fps=50), ChunkAccelerator(fixed_engine(2.0)))
    server.lerobot_features = {"observation.state": {"dtype": "float32", "shape": (14,), "names": list(JOINTS)}}
    return server


def _run(client: Any, chunks: int) -> list[int]:
    """Executes a number of chunks with the client's own threads' code; says how many actions each had."""
    receiver = threading.Thread(target=client.receive_actions, daemon=True)
    receiver.start()
    client.start_barrier.wait()
    lengths: list[int] = []
    for _ in range(chunks):
        client.control_loop_observation("")
        deadline = time.monotonic() + 30
        while not client.actions_available():
            assert time.monotonic() < deadline, "no actions came"
            time.sleep(0.005)
        lengths.append(client.action_queue.qsize())
        while client.actions_available():
            client.control_loop_action()
    client.shutdown_event.set()
    receiver.join(timeout=30)
    return lengths


def _expected_chunk(checkpoint: Path, state: np.ndarray) -> np.ndarray:
    policy, preprocessor, postprocessor = small_act(camera=(3, 32, 32))
    observation = {
        "observation.state": torch.tensor(state).float()[None],
        CAMERA: torch.full((1, 3, 32, 32), 90) / 255,
    }
    return postprocessor(policy.predict_action_chunk(preprocessor(observation)))[0].numpy()


def test_shortened_chunks_arrive_and_are_executed_whole(connect: Connect, checkpoint: Path) -> None:
    robot = LaggingRobot()
    client = connect(fixed_engine(2.0, chunk_length=24), robot)
    assert client.start()
    assert _run(client, chunks=3) == [12, 12, 12]
    for number, state in enumerate(robot.seen):
        executed = np.array(robot.sent[12 * number : 12 * number + 12])
        np.testing.assert_allclose(executed, _expected_chunk(checkpoint, state)[1::2], atol=1e-5)


def test_at_rate_one_the_chunks_are_those_of_the_stock_server(connect: Connect, checkpoint: Path) -> None:
    robot = LaggingRobot()
    client = connect(fixed_engine(4.0), robot, max_rate=1.0)
    assert client.start()
    assert _run(client, chunks=2) == [24, 23]  # LeRobot's client drops the first action of every later chunk
    np.testing.assert_allclose(robot.sent[:24], _expected_chunk(checkpoint, robot.seen[0]), atol=1e-5)


def test_a_client_that_asks_for_another_chunk_length_is_refused(
    connect: Connect, caplog: pytest.LogCaptureFixture
) -> None:
    client = connect(fixed_engine(2.0, chunk_length=24), LaggingRobot(), actions_per_chunk=20)
    with caplog.at_level(logging.ERROR):
        assert not client.start()
    assert "actions_per_chunk=20, but the patch was trained for chunks of 24" in caplog.text


def test_a_diffusion_policy_is_refused(connect: Connect, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    folder = save_checkpoint(small_diffusion(), tmp_path)
    client = connect(fixed_engine(2.0), LaggingRobot(), policy_type="diffusion", folder=folder)
    with caplog.at_level(logging.ERROR):
        assert not client.start()
    assert "a diffusion policy needs past observations" in caplog.text


def test_an_observation_one_control_step_earlier_tells_the_velocity() -> None:
    from lerobot.async_inference.helpers import TimedObservation

    server = _idle_server()
    seen = [
        TimedObservation(timestamp=moment, timestep=0, observation=dict.fromkeys(JOINTS, value))
        for moment, value in ((10.0, 0.0), (10.04, 0.25), (10.06, 0.5))
    ]
    for observation in seen:
        server._enqueue_observation(observation)
    np.testing.assert_array_equal(server._state_one_step_before(seen[2]), np.full(14, 0.25))
    assert server._state_one_step_before(seen[1]) is None


def test_a_chunk_with_nan_is_an_error() -> None:
    from lerobot.async_inference.helpers import TimedObservation

    server = _idle_server()
    server.last_processed_obs = TimedObservation(timestamp=0.0, timestep=0, observation=dict.fromkeys(JOINTS, 0.0))
    with pytest.raises(InputError, match="nothing was sent"):
        server._time_action_chunk(0.0, list(torch.full((24, 14), torch.nan)), 0)


def test_the_command_starts_a_server(run_module: Callable[..., Any], insertion_patch: Path, tmp_path: Path) -> None:
    import grpc
    from lerobot.transport import services_pb2, services_pb2_grpc

    module = "speedup_patch.lerobot.async_server"
    with run_module(module, "--patch", str(insertion_patch), "--port", "0", folder=tmp_path) as process:
        try:
            line = next(line for line in process.stdout if line.startswith("policy server with"))
            with grpc.insecure_channel(line.split()[-1]) as channel:
                ready = services_pb2_grpc.AsyncInferenceStub(channel).Ready(services_pb2.Empty(), timeout=30)
                assert ready == services_pb2.Empty()
        finally:
            process.terminate()


def test_the_command_says_what_is_wrong(run_module: Callable[..., Any], tmp_path: Path) -> None:
    with run_module("speedup_patch.lerobot.async_server", "--patch", "none.patch", folder=tmp_path) as process:
        printed, _ = process.communicate(timeout=300)
    assert process.returncode == 2
    assert "async_server: none.patch is not a patch folder" in printed
    assert "Traceback" not in printed
