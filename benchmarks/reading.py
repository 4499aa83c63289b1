"""Reads a LeRobot v3.0 data set of three million frames and compares with a bare pyarrow read of the same columns.

Run with ``python benchmarks/reading.py``; it needs 0.5 GB of disk and a few minutes. Two layouts are made one after the
other: files of about 100 MB with a row group for every episode, as LeRobot 0.4.4 records them, and one file that holds
everything. Every figure is taken in a process of its own; memory is the peak above what the imports take.
"""

import argparse
import json
import os
import platform
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

RESULTS = Path(__file__).parent / "results"
COLUMNS = ["observation.state", "action", "timestamp", "frame_index", "episode_index", "task_index"]
WIDTH, HZ = 14, 50
FILE_BYTES = {"lerobot": 100e6, "one_file": float("inf")}
FASTEST_OF = 3
LEAST_SPEED, MOST_MEMORY = 0.5, 2.0


def make(folder: Path, layout: str, frames: int) -> None:
    """Writes a data set of smooth random motion, episodes of 200 to 600 frames."""
    import numpy as np
    import pyarrow as pa
    import pyarrow.parquet as pq

    rng = np.random.default_rng(0)
    lengths: list[int] = []
    while sum(lengths) < frames:
        lengths.append(min(int(rng.integers(200, 601)), frames - sum(lengths)))
    files: list[int] = []
    for number, file in _files(lengths, FILE_BYTES[layout]):
        files += [number] * len(file)
        path = folder / f"data/chunk-000/file-{number:03d}.parquet"
        path.parent.mkdir(parents=True, exist_ok=True)
        tables = (_episode(index, lengths[index], sum(lengths[:index]), rng) for index in file)
        if layout == "one_file":
            pq.write_table(pa.concat_tables(tables), path)
            continue
        writer: Any = None
        for table in tables:
            writer = writer or pq.ParquetWriter(path, table.schema, compression="snappy", use_dictionary=True)
            writer.write_table(table)
        writer.close()
    _write_meta(folder, lengths, files)


def _files(lengths: list[int], most_bytes: float) -> Iterator[tuple[int, list[int]]]:
    """(number, its episodes) of every file."""
    number, rows, episodes = 0, 0, list[int]()
    for index, length in enumerate(lengths):
        episodes.append(index)
        rows += length
        if rows * WIDTH * 2 * 4 * 1.3 >= most_bytes:
            yield number, episodes
            number, rows, episodes = number + 1, 0, []
    if episodes:
        yield number, episodes


def _episode(index: int, length: int, first_row: int, rng: Any) -> Any:
    import numpy as np
    import pyarrow as pa

    def motion() -> Any:
        values = np.cumsum(rng.normal(scale=1e-3, size=(length, WIDTH)), axis=0).astype(np.float32)
        return pa.FixedSizeListArray.from_arrays(pa.array(values.reshape(-1)), WIDTH)

    frames = np.arange(length)
    return pa.table(
        {
            "observation.state": motion(),
            "action": motion(),
            "timestamp": (frames / HZ).astype(np.float32),
            "frame_index": frames,
            "episode_index": np.full(length, index),
            "index": first_row + frames,
            "task_index": np.zeros(length, dtype=np.int64),
        }
    )


def _write_meta(folder: Path, lengths: list[int], files: list[int]) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    count = len(lengths)
    (folder / "meta/episodes/chunk-000").mkdir(parents=True)
    table = {
        "episode_index": list(range(count)),
        "tasks": [["move about"]] * count,
        "length": lengths,
        "data/chunk_index": [0] * count,
        "data/file_index": files,
    }
    pq.write_table(pa.table(table), folder / "meta/episodes/chunk-000/file-000.parquet")
    pq.write_table(pa.table({"task_index": [0], "task": ["move about"]}), folder / "meta/tasks.parquet")
    features = {name: {"dtype": "float32", "shape": [WIDTH], "names": None} for name in COLUMNS[:2]}
    info = {"codebase_version": "v3.0", "fps": HZ, "robot_type": "aloha", "features": features}
    info |= {"total_episodes": count, "total_frames": sum(lengths)}
    (folder / "meta/info.json").write_text(json.dumps(info))


def measure(folder: Path, way: str) -> dict[str, float]:
    """Seconds, bytes of the arrays that are kept, and the peak of memory above what the imports take."""
    import resource
    import time

    import pyarrow.parquet as pq

    from speedup_patch.datasets import lerobot_v3, read_demonstrations  # noqa: F401

    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    start = time.perf_counter()
    if way == "bare":
        kept = pq.read_table(folder / "data", columns=COLUMNS).nbytes
        seconds = time.perf_counter() - start
    else:
        demonstrations = read_demonstrations(folder)
        seconds = time.perf_counter() - start
        kept = sum(e.states.nbytes + e.actions.nbytes + e.timestamps.nbytes for e in demonstrations)
    peak = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) * 1024
    return {"seconds": seconds, "kept_bytes": kept, "peak_bytes": peak}


def compare(folder: Path, layout: str, frames: int) -> dict[str, Any]:
    """Both ways, turn about, on a data set that this process never touches: its own peak would count in theirs."""
    _run(folder, "make", layout, str(frames))
    size = sum(file.stat().st_size for file in folder.rglob("*.parquet"))
    runs = {"bare": list[Any](), "ours": list[Any]()}
    for _ in range(FASTEST_OF):
        for way, found in runs.items():
            found.append(_run(folder, way))
    fastest = {way: min(run["seconds"] for run in found) for way, found in runs.items()}
    ours = max(runs["ours"], key=lambda run: run["peak_bytes"])
    return {
        "layout": layout,
        "frames": frames,
        "files": len(list((folder / "data").rglob("*.parquet"))),
        "disk_bytes": size,
        "seconds": fastest,
        "speed_ratio": fastest["bare"] / fastest["ours"],
        "kept_bytes": ours["kept_bytes"],
        "peak_bytes": {way: max(run["peak_bytes"] for run in found) for way, found in runs.items()},
        "memory_ratio": ours["peak_bytes"] / ours["kept_bytes"],
    }


def _run(folder: Path, *step: str) -> Any:
    command = [sys.executable, __file__, "--folder", str(folder), "--step", *step]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    return json.loads(done.stdout or "null")


def table(results: dict[str, Any]) -> str:
    """The figures as a page of markdown."""
    lines = [
        "# Reading three million frames",
        "",
        f"`{results['command']}`, {results['cores']} CPU cores, pyarrow {results['pyarrow']}, "
        f"Python {results['python']}; fastest of {FASTEST_OF}, largest peak of {FASTEST_OF}.",
        "",
        "| layout | files | bare pyarrow | ours | speed ratio | arrays kept | peak | memory ratio |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for row in results["layouts"]:
        lines.append(
            f"| {row['layout']} | {row['files']} | {row['seconds']['bare']:.2f} s | {row['seconds']['ours']:.2f} s "
            f"| {row['speed_ratio']:.2f} | {row['kept_bytes'] / 1e6:.0f} MB | {row['peak_bytes']['ours'] / 1e6:.0f} MB "
            f"| {row['memory_ratio']:.2f} |"
        )
    lines += [
        "",
        f"Wanted: a speed ratio of at least {LEAST_SPEED} and a memory ratio of at most {MOST_MEMORY}. The bare read "
        f"is `pyarrow.parquet.read_table` of the same columns ({', '.join(COLUMNS)}), which checks nothing; ours "
        f"checks every value and every counter, and gives episodes of float32 arrays.",
    ]
    return "\n".join(lines) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--frames", type=int, default=3_000_000)
    parser.add_argument("--out", type=Path, default=RESULTS)
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--step", nargs="+", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.step:
        if arguments.step[0] == "make":
            make(arguments.folder, arguments.step[1], int(arguments.step[2]))
        else:
            print(json.dumps(measure(arguments.folder, arguments.step[0])))
        return
    results: dict[str, Any] = {
        "command": f"python benchmarks/reading.py --frames {arguments.frames}",
        "cores": len(os.sched_getaffinity(0)),
        "python": platform.python_version(),
        "layouts": [],
    }
    for layout in FILE_BYTES:
        with tempfile.TemporaryDirectory() as folder:
            results["layouts"].append(compare(Path(folder) / "data", layout, arguments.frames))
    from importlib.metadata import version

    results["pyarrow"] = version("pyarrow")
    (arguments.out / "reading.json").write_text(json.dumps(results, indent=2) + "\n")
    (arguments.out / "reading.md").write_text(table(results))
    print(table(results))
    if any(row["speed_ratio"] < LEAST_SPEED or row["memory_ratio"] > MOST_MEMORY for row in results["layouts"]):
        sys.exit("the targets were missed")


if __name__ == "__main__":
    main()
