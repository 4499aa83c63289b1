"""openpi's side of the wire for tests: its message format, its server around any policy, and a small client.

Written after openpi's msgpack_numpy.py and websocket_policy_server.py, and on purpose without our own wire code.
"""

import asyncio
import functools
import http
import time
import traceback
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgpack
import numpy as np
from websockets.asyncio.client import ClientConnection, connect
from websockets.asyncio.server import ServerConnection, serve
from websockets.exceptions import ConnectionClosed
from websockets.http11 import Request, Response

from speedup_patch.errors import InputError
from speedup_patch.robots import Robot, find_robot
from speedup_patch.serve.config import ProxyConfig
from speedup_patch.serve.proxy import Proxy

Policy = Callable[[dict[str, Any]], dict[str, Any]]
METADATA = {"action_horizon": 8, "reset_pose": [0.0, -1.5]}
ROWS = 8


def _pack_array(value: Any) -> Any:
    if isinstance(value, np.ndarray):
        return {b"__ndarray__": True, b"data": value.tobytes(), b"dtype": value.dtype.str, b"shape": value.shape}
    if isinstance(value, np.generic):
        return {b"__npgeneric__": True, b"data": value.item(), b"dtype": value.dtype.str}
    return value


def _unpack_array(value: dict[Any, Any]) -> Any:
    if b"__ndarray__" in value:
        return np.ndarray(buffer=value[b"data"], dtype=np.dtype(value[b"dtype"]), shape=value[b"shape"])
    if b"__npgeneric__" in value:
        return np.dtype(value[b"dtype"]).type(value[b"data"])
    return value


packb = functools.partial(msgpack.packb, default=_pack_array)
unpackb = functools.partial(msgpack.unpackb, object_hook=_unpack_array)


def counting_policy(observation: Mapping[str, Any]) -> dict[str, Any]:
    """A chunk in which every number tells whose request it answers and in which row it stands."""
    rows = np.arange(ROWS, dtype=np.float32)[:, None]
    tag = float(observation["tag"])
    return {"actions": np.broadcast_to(tag + rows / 100, (ROWS, 14)).astype(np.float32), "tag": observation["tag"]}


@dataclass(frozen=True)
class Shortened:
    actions: np.ndarray
    done: float
    rate: float
    reason: str | None
    seconds: float


class EverySecondRow:
    """Stands in for the ChunkAccelerator: keeps rows 1, 3, 5 ... and refuses what the real one refuses."""

    def __init__(self, robot: Robot, fixed_rate: int = 2, reason: str | None = None) -> None:
        self.robot, self.rate, self.reason = robot, fixed_rate, reason

    def shorten(self, chunk: np.ndarray, state: np.ndarray, previous_state: np.ndarray | None = None) -> Shortened:
        if chunk.ndim != 2 or chunk.shape[1] != self.robot.action_size or len(chunk) == 0:
            raise InputError(f"a chunk of shape {chunk.shape} is not (n, {self.robot.action_size})")
        if state.shape != (self.robot.state_size,):
            raise InputError(f"a state of shape {state.shape} is not ({self.robot.state_size},)")
        if not (np.isfinite(chunk).all() and np.isfinite(state).all()):
            raise InputError("NaN or infinity in the chunk or the state")
        started = time.perf_counter()
        actions = chunk if self.reason else chunk[self.rate - 1 :: self.rate]
        return Shortened(
            actions, float(len(chunk)), len(chunk) / len(actions), self.reason, time.perf_counter() - started
        )

    def prepare(self) -> None:
        pass

    def jumped(self, state: np.ndarray) -> bool:
        return False

    def reset(self) -> None:
        pass


def observation(tag: float, **more: Any) -> dict[str, Any]:
    """What an ALOHA client sends, with a tag that the counting policy puts into its answer."""
    return {"state": np.zeros(14, np.float32), "tag": tag, "prompt": "insert the peg", **more}


@asynccontextmanager
async def openpi_server(
    policy: Policy, *, api_key: str | None = None, port: int = 0, metadata: Mapping[str, Any] = METADATA
) -> AsyncIterator[str]:
    """A policy server that speaks openpi's protocol, at the address it gives."""

    async def converse(websocket: ServerConnection) -> None:
        await websocket.send(packb(dict(metadata)))
        while True:
            try:
                action = policy(unpackb(await websocket.recv()))
                if asyncio.iscoroutine(action):
                    action = await action
                await websocket.send(packb({**action, "server_timing": {"infer_ms": 1.25}}))
            except ConnectionClosed:
                break
            except Exception:
                await websocket.send(traceback.format_exc())
                await websocket.close(1011, "Internal server error. Traceback included in previous frame.")
                break

    def admit(connection: ServerConnection, request: Request) -> Response | None:
        if api_key is not None and request.headers.get("Authorization") != f"Api-Key {api_key}":
            return connection.respond(http.HTTPStatus.FORBIDDEN, "the policy server wants another key\n")
        return None

    async with serving(converse, port=port, process_request=admit) as address:
        yield address


@asynccontextmanager
async def serving(handler: Callable[[ServerConnection], Any], port: int = 0, **options: Any) -> AsyncIterator[str]:
    """Any websocket handler on loopback."""
    async with serve(
        handler, "127.0.0.1", port, compression=None, max_size=None, close_timeout=0.2, **options
    ) as server:
        yield f"ws://127.0.0.1:{server.sockets[0].getsockname()[1]}"


@asynccontextmanager
async def running_proxy(
    upstream: str,
    *,
    make_accelerator: Callable[[], Any] | None = None,
    robot: Robot | None = None,
    state_keys: tuple[str, ...] = ("state",),
    patch: Path | None = None,
    **config: Any,
) -> AsyncIterator[tuple[Proxy, str]]:
    """A proxy on an ephemeral port and its address; stopped and waited for at the end."""
    robot = robot or find_robot("aloha")
    proxy = Proxy(
        ProxyConfig(upstream, port=0, **config),
        robot,
        make_accelerator or (lambda: EverySecondRow(robot)),
        state_keys,
        {"version": "test", "robot": robot.name},
        patch,
    )
    started: asyncio.Future[int] = asyncio.get_running_loop().create_future()
    task = asyncio.create_task(proxy.run(started.set_result))
    await asyncio.wait({task, started}, return_when=asyncio.FIRST_COMPLETED)
    if task.done():
        await task
    try:
        yield proxy, f"ws://127.0.0.1:{await started}"
    finally:
        proxy.stop()
        await asyncio.wait_for(task, 120)


@asynccontextmanager
async def client(address: str, **options: Any) -> AsyncIterator[tuple[ClientConnection, dict[str, Any]]]:
    """A connection as openpi's client opens it, and the metadata it was given."""
    async with connect(address, compression=None, max_size=None, close_timeout=1, proxy=None, **options) as connection:
        metadata = await connection.recv()
        assert isinstance(metadata, bytes)
        yield connection, unpackb(metadata)


async def ask(connection: ClientConnection, request: Mapping[str, Any]) -> dict[str, Any]:
    """One inference; a text reply is an error, as in openpi's client."""
    await connection.send(packb(dict(request)))
    reply = await connection.recv()
    if isinstance(reply, str):
        raise RuntimeError(reply)
    return unpackb(reply)


def finish(work: Any, seconds: float = 600.0) -> Any:
    """Runs a coroutine to its end; what hangs fails after a time that is long even beside other work."""

    async def bounded() -> Any:
        async with asyncio.timeout(seconds):
            return await work

    return asyncio.run(bounded())


async def settled(reached: Callable[[], bool]) -> None:
    """Waits until sockets that are being closed are gone; those that stay open fail."""
    async with asyncio.timeout(120):
        while not reached():
            await asyncio.sleep(0.01)


async def http_get(address: str, path: str, headers: str = "") -> str:
    """The whole answer to a plain HTTP request."""
    host, port = address.removeprefix("ws://").split(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    writer.write(f"GET {path} HTTP/1.1\r\nHost: {host}\r\n{headers}\r\n".encode())
    await writer.drain()
    answer = await reader.read()
    writer.close()
    return answer.decode()
