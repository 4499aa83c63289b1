"""``sup serve`` as a process of its own, as users run it."""

import asyncio
import json
import os
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

import speedup_patch
from speedup_patch.data import Episode
from stand_ins import smooth_demonstrations

START = "import tyro; from speedup_patch.commands.serve import serve; tyro.cli(serve)"
CHUNK = 24


@dataclass
class ServeProcess:
    """A running proxy: its address, its process, and the events it has logged so far."""

    process: asyncio.subprocess.Process
    port: int = 0
    events: list[dict[str, Any]] = field(default_factory=list)

    @property
    def address(self) -> str:
        return f"ws://127.0.0.1:{self.port}"

    def count(self, event: str) -> int:
        return sum(line["event"] == event for line in self.events)

    async def stop(self) -> int:
        """Asks it to stop and gives its exit code."""
        if self.process.returncode is None:
            self.process.send_signal(signal.SIGTERM)
        return await asyncio.wait_for(self.process.wait(), 300)


@asynccontextmanager
async def serve_process(patch: Path, upstream: str, *options: str) -> AsyncIterator[ServeProcess]:
    """The proxy on a free port, stopped at the end; lines that are not JSON are kept as events of their own."""
    source = str(Path(speedup_patch.__file__).parents[1])
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", START, str(patch), "--upstream", upstream, "--port", "0", *options),
        stderr=asyncio.subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": source, "OMP_NUM_THREADS": "1"},
    )
    running = ServeProcess(process)
    listening = asyncio.Event()

    async def read_events() -> None:
        assert process.stderr is not None
        try:
            async for line in process.stderr:
                text = line.decode()
                running.events.append(json.loads(text) if text.startswith("{") else {"event": "text", "text": text})
                if running.events[-1]["event"] == "listening":
                    running.port = running.events[-1]["port"]
                    listening.set()
        finally:
            listening.set()

    reading = asyncio.create_task(read_events())
    try:
        await asyncio.wait_for(listening.wait(), 300)
        assert running.port, running.events
        yield running
    finally:
        await running.stop()
        await reading


def demonstrated_requests(count: int) -> list[dict[str, Any]]:
    """Observations along a demonstration, each with the number of its first action."""
    episode = demonstration()
    steps = np.linspace(0, len(episode) - CHUNK, count).astype(int)
    return [{"state": episode.states[step].astype(np.float32), "step": int(step)} for step in steps]


def replaying_policy(observation: dict[str, Any]) -> dict[str, Any]:
    """Stands in for a policy: the demonstrated actions from the step that the observation names."""
    step = observation["step"]
    return {"actions": demonstration().actions[step : step + CHUNK].astype(np.float32), "step": step}


def demonstration() -> Episode:
    return smooth_demonstrations(episodes=1).episodes[0]
