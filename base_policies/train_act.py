"""Train LeRobot's ACT on recorded demonstrations: `python base_policies/train_act.py --data FILE --out DIR`."""

import argparse
import json
import shlex
import sys
from dataclasses import asdict, fields
from pathlib import Path

import torch
from lerobot_act import LEROBOT_VERSION, TRAINING_RECORD, save_policy
from recording import Recording, measure_statistics, read_recordings
from training import TrainingConfig, train

Record = dict[str, object]


def parse_arguments(arguments: list[str]) -> tuple[list[Path], Path, TrainingConfig]:
    """The data files, the folder to write and the training configuration on the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.ArgumentDefaultsHelpFormatter)
    parser.add_argument("--data", type=Path, nargs="+", required=True, help="demonstrations, .npz")
    parser.add_argument("--out", type=Path, required=True, help="folder to write the LeRobot policy to; must not exist")
    for entry in fields(TrainingConfig):
        parser.add_argument(flag(entry.name), type=entry.type, default=entry.default, help=entry.metadata["help"])
    parsed = parser.parse_args(arguments)
    if parsed.out.exists():
        parser.error(f"{parsed.out} exists already; name a new folder")
    for path in parsed.data:
        if not path.is_file():
            parser.error(f"{path} is not a file")
    options = {entry.name: getattr(parsed, entry.name) for entry in fields(TrainingConfig)}
    try:
        return parsed.data, parsed.out, TrainingConfig(**options)
    except ValueError as error:
        parser.error(str(error))


def flag(name: str) -> str:
    """The command-line spelling of a configuration field."""
    return "--" + name.replace("_", "-")


def training_command(data: list[Path], out: Path, config: TrainingConfig) -> str:
    """The command that repeats the training, with file names only and without options left at their defaults."""
    command = ["python", "base_policies/train_act.py", "--data", *(path.name for path in data), "--out", out.name]
    for entry in fields(config):
        value = getattr(config, entry.name)
        if value != entry.default:
            command += [flag(entry.name), str(value)]
    return shlex.join(command)


def describe(recording: Recording, config: TrainingConfig, command: str, measured: dict[str, float]) -> Record:
    """The record of how a policy was made, for JSON."""
    return {
        "command": command,
        "config": asdict(config),
        "control_hz": recording.control_hz,
        "data_sha256": recording.fingerprint,
        "episodes": len(recording.episode_ends),
        "frames": int(recording.episode_ends[-1]),
        "lerobot_version": LEROBOT_VERSION,
        "measured": measured,
        "robot": recording.robot,
        "tasks": recording.tasks,
        "torch_version": torch.__version__,
    }


def main() -> None:
    """Read the recording, train, and write the policy folder with a record of how it was made."""
    data, out, config = parse_arguments(sys.argv[1:])
    recording = read_recordings(data)
    statistics = measure_statistics(recording.features, config.smallest_std)
    sizes = ", ".join(f"{name} {values.shape}" for name, values in recording.features.items())
    print(
        f"{', '.join(map(str, data))}: {len(recording.episode_ends)} episodes, {sizes}, tasks {recording.tasks}",
        flush=True,
    )
    policy, measured = train(recording, statistics, config)

    partial = out.with_name(out.name + ".partial")
    save_policy(policy, statistics, partial)
    record = describe(recording, config, training_command(data, out, config), measured)
    (partial / TRAINING_RECORD).write_text(json.dumps(record, indent=2) + "\n")
    partial.rename(out)
    print(f"wrote {out}")


if __name__ == "__main__":
    main()
