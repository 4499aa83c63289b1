"""What ``sup serve`` adds to a request: the same client asks a policy server directly and through the proxy, in turns.

    python benchmarks/proxy_latency.py --patch my.patch --data demonstrations.npz --out benchmarks/results/proxy_latency

Server, proxy and client are processes of their own on loopback. The server answers at once with the same chunk, so that
what is measured is the way there and back. The client asks again at once, or after a pause of 10 ms, in which processor
and caches turn to other things (a robot's pause between chunks is longer still). The time of the decision alone
is read from the proxy's own decision log.
"""

import argparse
import asyncio
import functools
import json
import multiprocessing
import multiprocessing.connection
import os
import platform
import re
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

import msgpack
import numpy as np
import websockets
from websockets.asyncio.server import ServerConnection
from websockets.asyncio.server import serve as serve_websockets
from websockets.exceptions import ConnectionClosed
from websockets.sync.client import ClientConnection, connect

from speedup_patch.datasets import read_demonstrations
from speedup_patch.runtime.decision_log import read_decisions
from speedup_patch.runtime.patch_folder import load_patch
from speedup_patch.serve.wire import pack

START_PROXY = "import tyro; from speedup_patch.commands.serve import serve; tyro.cli(serve)"
PAUSES = {"at once": 0.0, "after 10 ms": 0.01}
"""Seconds between a reply and the next request."""
"""Seconds between requests: a robot is busy with a chunk for far longer, and the proxy prepares the next decision."""
CAMERAS = {"no camera": 0, "three cameras 224 x 224": 3}


def main() -> None:
    """Measures and writes OUT.json and OUT.md."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--patch", type=Path, required=True)
    parser.add_argument("--data", type=Path, required=True, help="demonstrations of the patch's robot")
    parser.add_argument("--requests", type=int, default=1000)
    parser.add_argument("--out", type=Path)
    arguments = parser.parse_args()
    result = {
        "command": f"python benchmarks/proxy_latency.py --patch PATCH --data DATA --requests {arguments.requests}",
        "machine": machine(),
        "patch": describe(arguments.patch),
        "versions": {"python": platform.python_version(), "websockets": websockets.__version__},
        "observations": {
            f"{name}, {when}": measure(arguments.patch, arguments.data, arguments.requests, cameras, pause)
            for name, cameras in CAMERAS.items()
            for when, pause in PAUSES.items()
        },
    }
    print(json.dumps(result, indent=2))
    if arguments.out is not None:
        arguments.out.with_suffix(".json").write_text(json.dumps(result, indent=2) + "\n")
        arguments.out.with_suffix(".md").write_text(table(result))


def describe(folder: Path) -> dict[str, Any]:
    """What of the patch the decision's time depends on."""
    patch = load_patch(folder)
    sizes = {file.name: file.stat().st_size for file in sorted(folder.glob("*.onnx"))}
    return {
        "robot": patch.robot.name,
        "chunk_length": patch.chunk_length,
        "options": list(patch.candidates.labels),
        "bytes": sizes,
    }


def machine() -> str:
    """What it ran on, how busy that was, and whether it was let through before the other work there (``chrt -f 1``)."""
    first = os.sched_getscheduler(0) == os.SCHED_FIFO
    busy = f"load {os.getloadavg()[0]:.1f} at the start" + (
        ", scheduled before other work (chrt -f 1)" if first else ""
    )
    return f"{os.cpu_count()} cores, {platform.machine()}, {busy}"


def measure(folder: Path, data: Path, requests: int, cameras: int, pause: float) -> dict[str, Any]:
    """Milliseconds of a request directly and through the proxy, and of the decision inside the latter."""
    chunk, state = demonstrated_chunk(data, load_patch(folder).chunk_length)
    observation = {
        "state": state,
        "images": {f"cam_{number}": np.zeros((3, 224, 224), np.uint8) for number in range(cameras)},
        "prompt": "insert the peg",
    }
    request = pack(observation)
    with tempfile.TemporaryDirectory() as scratch:
        with (
            policy_server(pack({"actions": chunk, "policy_timing": {"infer_ms": 0.0}})) as upstream,
            proxy_process(folder, upstream, Path(scratch)) as (proxy, _),
        ):
            seconds = ask_in_turns({"direct": upstream, "proxy": proxy}, request, requests, pause)
        logged = read_decisions(Path(scratch))[-requests:]
    decisions = np.array([decision.seconds for decision in logged])
    added = np.median(seconds["proxy"]) - np.median(seconds["direct"])
    return {
        "request_bytes": len(request),
        "requests_each": requests,
        "direct_ms": figures(seconds["direct"]),
        "proxy_ms": figures(seconds["proxy"]),
        "decision_ms": figures(decisions),
        "decisions_that_fell_back": sum(decision.reason is not None for decision in logged),
        "added_median_ms": round(1000 * added, 3),
        "added_median_beyond_decision_ms": round(1000 * (added - np.median(decisions)), 3),
    }


def demonstrated_chunk(data: Path, length: int) -> tuple[np.ndarray, np.ndarray]:
    """A chunk and the state it was sent from, from the middle of a demonstration, so that the guard lets them pass."""
    episode = next(iter(read_demonstrations(data)))
    middle = (len(episode) - length) // 2
    return episode.actions[middle : middle + length].astype(np.float32), episode.states[middle].astype(np.float32)


def ask_in_turns(addresses: dict[str, str], request: bytes, count: int, pause: float) -> dict[str, np.ndarray]:
    """Seconds per request for every address, asked one after the other by one client."""
    seconds: dict[str, list[float]] = {name: [] for name in addresses}
    with ExitStack() as stack:
        connections = {name: stack.enter_context(open_connection(address)) for name, address in addresses.items()}
        for turn in range(count + 50):
            for name, connection in connections.items():
                begin = time.perf_counter()
                connection.send(request)
                reply = connection.recv()
                elapsed = time.perf_counter() - begin
                if isinstance(reply, str):
                    raise SystemExit(f"the server answered with an error: {reply}")
                if turn >= 50:
                    seconds[name].append(elapsed)
                if pause:
                    time.sleep(pause)
    return {name: np.array(values) for name, values in seconds.items()}


@contextmanager
def open_connection(address: str) -> Iterator[ClientConnection]:
    """A connection like that of openpi's own client, past the metadata."""
    with connect(address, compression=None, max_size=None, proxy=None) as connection:
        connection.recv()
        yield connection


def figures(seconds: np.ndarray) -> dict[str, float]:
    """Median and 99th percentile in milliseconds."""
    return {
        "median": round(1000 * float(np.median(seconds)), 3),
        "p99": round(1000 * float(np.quantile(seconds, 0.99)), 3),
    }


async def answer_forever(port_out: "multiprocessing.connection.Connection", reply: bytes) -> None:
    """openpi's server loop around a policy that always gives the same reply."""

    async def converse(websocket: ServerConnection) -> None:
        await websocket.send(msgpack.packb({"policy": "same chunk"}))
        with suppress(ConnectionClosed):
            async for _ in websocket:
                await websocket.send(reply)

    async with serve_websockets(converse, "127.0.0.1", 0, compression=None, max_size=None) as server:
        port_out.send(server.sockets[0].getsockname()[1])
        await server.serve_forever()


def _run_server(port_out: "multiprocessing.connection.Connection", reply: bytes) -> None:
    asyncio.run(answer_forever(port_out, reply))


@contextmanager
def policy_server(reply: bytes) -> Iterator[str]:
    """The server in its own process, and its address."""
    context = multiprocessing.get_context("spawn")
    port_in, port_out = context.Pipe(duplex=False)
    process = context.Process(target=functools.partial(_run_server, port_out, reply), daemon=True)
    process.start()
    try:
        yield f"ws://127.0.0.1:{port_in.recv()}"
    finally:
        process.terminate()
        process.join()


@contextmanager
def proxy_process(patch: Path, upstream: str, log: Path) -> Iterator[tuple[str, int]]:
    """``sup serve`` in its own process: its address and its process number."""
    command = [sys.executable, "-c", START_PROXY, str(patch), "--upstream", upstream, "--port", "0", "--log", str(log)]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    assert process.stderr is not None
    try:
        for line in process.stderr:
            if found := re.search(r'"event": "listening".*"port": (\d+)', line):
                threading.Thread(target=process.stderr.read, daemon=True).start()
                yield f"ws://127.0.0.1:{found.group(1)}", process.pid
                break
        else:
            raise SystemExit("the proxy did not start")
    finally:
        process.terminate()
        process.wait(timeout=20)


def table(result: dict[str, Any]) -> str:
    """The result as a Markdown page."""
    rows = [
        f"| {name} | {one['request_bytes']} | {one['direct_ms']['median']} / {one['direct_ms']['p99']} "
        f"| {one['proxy_ms']['median']} / {one['proxy_ms']['p99']} "
        f"| {one['decision_ms']['median']} / {one['decision_ms']['p99']} "
        f"| {one['added_median_beyond_decision_ms']} |"
        for name, one in result["observations"].items()
    ]
    return "\n".join(
        [
            "# What the proxy adds to a request",
            "",
            f"`{result['command']}` on {result['machine']}. Milliseconds, median / 99th percentile.",
            "",
            "| observation | bytes | direct | through the proxy | decision alone | added beyond the decision, median |",
            "|---|---|---|---|---|---|",
            *rows,
            "",
        ]
    )


if __name__ == "__main__":
    main()
