"""RLDS data sets as tensorflow-datasets writes them to TFRecord files, read without TensorFlow."""

import re
from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate, groupby
from pathlib import Path

from speedup_patch.artefacts import read_json
from speedup_patch.datasets.rlds_features import STEPS, StepFeature, read_features
from speedup_patch.datasets.source import BadEpisode, Column, ColumnChoice, Entry, RawEpisode
from speedup_patch.datasets.tf_example import Feature, MalformedError, decode_example
from speedup_patch.datasets.tfrecord import RecordFile, masked_checksum
from speedup_patch.errors import InputError

INFO, FEATURES = "dataset_info.json", "features.json"
TEMPLATE = "{DATASET}-{SPLIT}.{FILEFORMAT}-{SHARD_X_OF_Y}"
STATE, ACTION = ("observation/state",), ("action",)
DROID_STATE = ("observation/joint_position", "observation/gripper_position")
DROID_ACTION = ("action_dict/joint_velocity", "action_dict/gripper_position")
INSTRUCTIONS = (f"{STEPS}/language_instruction", f"{STEPS}/observation/natural_language_instruction")
MOST_EPISODES = 10**6
"""Most episodes that a split may claim, so that a false count cannot fill the memory."""


@dataclass(frozen=True)
class Shard:
    """One file and how many episodes it should hold."""

    path: Path
    episodes: int


@dataclass(frozen=True)
class RldsSource:
    """The episodes of all splits and shards, numbered one after the other."""

    path: Path
    name: str
    shards: tuple[Shard, ...]
    features: Mapping[str, StepFeature]

    @property
    def control_hz(self) -> None:
        return None

    @property
    def robot_name(self) -> str:
        widths = [
            sum(self.columns[name].width for name in part) for part in (self.defaults.state, self.defaults.action)
        ]
        if self.defaults.action == DROID_ACTION:
            return "droid"
        return "panda_libero" if "libero" in self.name and widths == [8, 7] else ""

    @cached_property
    def columns(self) -> Mapping[str, Column]:
        return {name: Column(feature.width) for name, feature in self.features.items()}

    @property
    def defaults(self) -> ColumnChoice:
        states, actions = (STATE, DROID_STATE), (ACTION,)
        if self._has(DROID_STATE) and not self._has(STATE):
            actions = (DROID_ACTION, ACTION)
        return ColumnChoice(
            next((state for state in states if self._has(state)), ()),
            next((action for action in actions if self._has(action)), ()),
        )

    def _has(self, names: tuple[str, ...]) -> bool:
        return all(name in self.features for name in names)

    @cached_property
    def _ends(self) -> list[int]:
        """The number after each shard's last episode."""
        return list(accumulate(shard.episodes for shard in self.shards))

    def entries(self) -> Sequence[Entry]:
        return [Entry(number) for number in range(self._ends[-1] if self._ends else 0)]

    def read(self, numbers: Sequence[int], columns: Sequence[str]) -> Iterator[RawEpisode | BadEpisode]:
        chosen = {name: self.features[name] for name in columns}
        for place, group in groupby(numbers, key=lambda number: bisect_right(self._ends, number)):
            wanted, shard = list(group), self.shards[place]
            start = self._ends[place] - shard.episodes
            try:
                with RecordFile(shard.path) as records:
                    while wanted:
                        number = wanted.pop(0)
                        yield _read_episode(records, number, number - start, chosen)
            except InputError as error:
                yield from (BadEpisode(number, f"episode {number}: {error}") for number in wanted)


def open_rlds(path: Path) -> RldsSource:
    """The data set in a TFDS folder: the one with ``dataset_info.json``, or one above its version folders."""
    folder = _version_folder(path)
    masked_checksum(b"")  # says what to install, if that is missing
    info = read_json(folder / INFO)
    shards = tuple(_shards(folder, info))
    return RldsSource(path, str(info.get("name", "")), shards, read_features(folder / FEATURES))


def _version_folder(path: Path) -> Path:
    if (path / INFO).is_file():
        return path
    if not path.is_dir():
        raise InputError(f"{path} is not a folder; an RLDS data set is one with {INFO}")
    versions = [file.parent for file in (*path.glob(f"*/{INFO}"), *path.glob(f"*/*/{INFO}"))]
    if len(versions) != 1:
        found = ", ".join(sorted(str(version.relative_to(path)) for version in versions)) or "none"
        raise InputError(f"{path} has no {INFO}; name the one version folder to read, found: {found}")
    return versions[0]


def _shards(folder: Path, info: Mapping[str, object]) -> Iterator[Shard]:
    file_format = info.get("fileFormat", "tfrecord")
    if file_format != "tfrecord":
        raise InputError(f"{folder / INFO}: its file format is {file_format!r}; only 'tfrecord' can be read")
    splits = info.get("splits")
    if not isinstance(splits, list) or not splits:
        raise InputError(f"{folder / INFO}: 'splits' must list the splits of the data set, not {splits!r}")
    for split in splits:
        lengths = split.get("shardLengths") if isinstance(split, dict) else None
        texts = [str(length) for length in lengths] if isinstance(lengths, list) else []
        if not all(re.fullmatch("[0-9]{1,9}", text) for text in texts) or sum(map(int, texts)) > MOST_EPISODES:
            raise InputError(f"{folder / INFO}: 'shardLengths' must count the episodes of each file, not {lengths!r}")
        for index, text in enumerate(texts):
            yield Shard(folder / _shard_name(folder, info, split, index, len(texts)), int(text))


def _shard_name(folder: Path, info: Mapping[str, object], split: Mapping[str, object], index: int, shards: int) -> str:
    template = str(split.get("filepathTemplate") or TEMPLATE)
    parts = {
        "DATASET": info.get("name", ""),
        "SPLIT": split.get("name", ""),
        "FILEFORMAT": "tfrecord",
        "SHARD_X_OF_Y": f"{index:05d}-of-{shards:05d}",
        "SHARD_INDEX": f"{index:05d}",
        "NUM_SHARDS": f"{shards:05d}",
    }
    name = re.sub(r"\{([A-Z_]+)\}", lambda match: str(parts.get(match[1], match[0])), template)
    if Path(name).name != name or not name.isprintable():
        raise InputError(f"{folder / INFO}: a shard's name must be a file in its folder, not {name!r}")
    return name


def _read_episode(
    records: RecordFile, number: int, index: int, chosen: Mapping[str, StepFeature]
) -> RawEpisode | BadEpisode:
    where = f"{records.path}: record {index}"
    wanted = {feature.key for feature in chosen.values()} | set(INSTRUCTIONS)
    try:
        example = decode_example(records.read(index), wanted)
        tables = {name: feature.decode(example, where) for name, feature in chosen.items()}
    except MalformedError as error:
        return BadEpisode(number, f"episode {number}: {where} is no tf.train.Example: {error}")
    except InputError as error:
        return BadEpisode(number, f"episode {number}: {error}")
    return RawEpisode(number, tables, where, task=_task(example))


def _task(example: Mapping[str, Feature]) -> str:
    """What the first step says is to be done."""
    for key in INSTRUCTIONS:
        texts = example.get(key)
        if isinstance(texts, list) and texts:
            return texts[0].decode("utf-8", errors="replace")
    return ""
