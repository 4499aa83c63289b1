"""Writes the known episodes with tensorflow-datasets itself: ``python tests/rlds/write_fixture.py FOLDER``."""

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow_datasets as tfds

sys.path.insert(0, str(Path(__file__).parents[1]))

from rlds.known_episodes import DROID, LIBERO, KnownEpisode, droid_episodes, libero_episodes

SHARDS = {LIBERO: 2, DROID: 1}


def _tensor(width: int, dtype: type, **options: Any) -> tfds.features.Tensor:
    return tfds.features.Tensor(shape=(width,), dtype=dtype, **options)


def libero_features() -> tfds.features.FeaturesDict:
    """The features of modified_libero_rlds with small pictures, plus one column in each further encoding."""
    picture = tfds.features.Image(shape=(4, 4, 3), dtype=np.uint8, encoding_format="png")
    observation = {
        "image": picture,
        "wrist_image": picture,
        "state": _tensor(8, np.float32),
        "joint_state": _tensor(7, np.float32),
        "contacts": _tensor(2, np.int32),
        "touches": tfds.features.Sequence(np.float32),
        "packed": _tensor(3, np.float64, encoding="bytes"),
        "zipped": _tensor(2, np.float32, encoding="zlib"),
    }
    step = {
        "observation": observation,
        "action": _tensor(7, np.float32),
        "discount": tfds.features.Scalar(dtype=np.float32),
        "reward": tfds.features.Scalar(dtype=np.float32),
        "is_first": tfds.features.Scalar(dtype=np.bool_),
        "is_last": tfds.features.Scalar(dtype=np.bool_),
        "is_terminal": tfds.features.Scalar(dtype=np.bool_),
        "language_instruction": tfds.features.Text(),
    }
    episode = {"steps": tfds.features.Dataset(step), "episode_metadata": {"file_path": tfds.features.Text()}}
    return tfds.features.FeaturesDict(episode)


def droid_features() -> tfds.features.FeaturesDict:
    """The features of DROID that hold numbers or text, with one small picture."""
    step = {
        "observation": {
            "exterior_image_1_left": tfds.features.Image(shape=(4, 4, 3), dtype=np.uint8, encoding_format="jpeg"),
            "joint_position": _tensor(7, np.float64),
            "gripper_position": _tensor(1, np.float64),
            "cartesian_position": _tensor(6, np.float64),
        },
        "action": _tensor(7, np.float64),
        "action_dict": {
            "joint_position": _tensor(7, np.float64),
            "joint_velocity": _tensor(7, np.float64),
            "gripper_position": _tensor(1, np.float64),
        },
        "is_first": tfds.features.Scalar(dtype=np.bool_),
        "is_last": tfds.features.Scalar(dtype=np.bool_),
        "language_instruction": tfds.features.Text(),
        "language_instruction_2": tfds.features.Text(),
    }
    return tfds.features.FeaturesDict({"steps": tfds.features.Dataset(step)})


def write(
    folder: Path, name: str, episodes: list[KnownEpisode], shards: int = 1, file_format: str = "tfrecord"
) -> Path:
    """Writes one data set with the real library and returns its version folder."""
    features = {LIBERO: libero_features, DROID: droid_features}[name]()

    class KnownEpisodes(tfds.core.GeneratorBasedBuilder, skip_registration=True):
        VERSION = tfds.core.Version("1.0.0")

        def _info(self) -> tfds.core.DatasetInfo:
            return tfds.core.DatasetInfo(builder=self, features=features)

        def _split_generators(self, dl_manager: object) -> dict[str, Iterator[tuple[int, dict[str, Any]]]]:
            return {"train": self._generate_examples()}

        def _generate_examples(self) -> Iterator[tuple[int, dict[str, Any]]]:
            for number, episode in enumerate(episodes):
                yield number, _example(features, episode, number)

    KnownEpisodes.name = name
    builder = KnownEpisodes(data_dir=str(folder), file_format=file_format)
    builder.download_and_prepare(download_config=tfds.download.DownloadConfig(num_shards=shards))
    return Path(builder.data_path)


def _example(features: tfds.features.FeaturesDict, episode: KnownEpisode, number: int) -> dict[str, Any]:
    step = features["steps"].feature
    example: dict[str, Any] = {"steps": [_fill(step, "", episode, row) for row in range(len(episode))]}
    if "episode_metadata" in features:
        example["episode_metadata"] = {"file_path": f"episode_{number}.hdf5"}
    return example


def _fill(feature: Any, name: str, episode: KnownEpisode, row: int) -> Any:
    if isinstance(feature, tfds.features.FeaturesDict):
        return {key: _fill(inner, f"{name}/{key}".lstrip("/"), episode, row) for key, inner in feature.items()}
    if isinstance(feature, tfds.features.Image):
        return np.full(feature.shape, row, dtype=np.uint8)
    if isinstance(feature, tfds.features.Text):
        return episode.task
    if isinstance(feature, tfds.features.Sequence):
        return np.zeros(row, dtype=np.float32)  # another number of values in every step
    values = episode.columns[name][row]
    return values[0] if feature.shape == () else values


if __name__ == "__main__":
    for name, episodes in ((LIBERO, libero_episodes()), (DROID, droid_episodes())):
        write(Path(sys.argv[1]), name, episodes, SHARDS[name])
