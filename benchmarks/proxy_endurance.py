"""Memory and file descriptors of ``sup serve`` over many requests and connections, some of which end badly.

python benchmarks/proxy_endurance.py --patch my.patch --data demonstrations.npz --out FILE.json
"""

import argparse
import json
import os
import platform
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from proxy_latency import demonstrated_chunk, open_connection, policy_server, proxy_process
from speedup_patch.runtime.patch_folder import load_patch
from speedup_patch.serve.wire import pack

CLIENTS = 4
REQUESTS_PER_CONNECTION = 50


def main() -> None:
    """Measures and writes one JSON document."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--patch", type=Path, required=True)
    parser.add_argument("--data", type=Path, required=True, help="demonstrations of the patch's robot")
    parser.add_argument("--requests", type=int, default=20_000)
    parser.add_argument("--out", type=Path)
    arguments = parser.parse_args()
    chunk, state = demonstrated_chunk(arguments.data, load_patch(arguments.patch).chunk_length)
    begin = time.perf_counter()
    with (
        tempfile.TemporaryDirectory() as scratch,
        policy_server(pack({"actions": chunk})) as upstream,
        proxy_process(arguments.patch, upstream, Path(scratch)) as (address, process),
    ):
        samples = run(address, process, pack({"state": state, "prompt": "insert the peg"}), arguments.requests)
    result = {
        "command": f"python benchmarks/proxy_endurance.py --patch PATCH --data DATA --requests {arguments.requests}",
        "machine": f"{os.cpu_count()} cores, {platform.machine()}, Python {platform.python_version()}",
        "clients_at_once": CLIENTS,
        "requests_per_connection": REQUESTS_PER_CONNECTION,
        "seconds": round(time.perf_counter() - begin, 1),
        "samples": samples,
    }
    print(json.dumps(result, indent=2))
    if arguments.out is not None:
        arguments.out.write_text(json.dumps(result, indent=2) + "\n")


def run(address: str, process: int, request: bytes, requests: int) -> list[dict[str, Any]]:
    """Memory and descriptors of the proxy after every tenth of the requests."""
    part = requests // 10
    samples: list[dict[str, Any]] = []
    with ThreadPoolExecutor(CLIENTS) as pool:
        for done in range(part, requests + 1, part):
            connections = part // REQUESTS_PER_CONNECTION
            answered = sum(pool.map(lambda number: converse(address, request, number), range(connections)))
            time.sleep(0.5)
            samples.append({"requests": done, "answered_in_this_part": answered, **resources(process)})
    return samples


def converse(address: str, request: bytes, number: int) -> int:
    """One connection's requests; every fifth connection then leaves in the middle of one more."""
    answered = 0
    with open_connection(address) as connection:
        for _ in range(REQUESTS_PER_CONNECTION):
            connection.send(request)
            answered += isinstance(connection.recv(), bytes)
        if number % 5 == 0:
            connection.send(request)
            connection.socket.close()
    return answered


def resources(process: int) -> dict[str, Any]:
    """What the operating system says of a process."""
    status = Path(f"/proc/{process}/status").read_text()
    resident = next(line for line in status.splitlines() if line.startswith("VmRSS:"))
    return {
        "memory_mib": round(int(resident.split()[1]) / 1024, 1),
        "file_descriptors": len(os.listdir(f"/proc/{process}/fd")),
    }


if __name__ == "__main__":
    main()
