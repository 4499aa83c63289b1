"""Films are read back with the libraries that others would read them with."""

import sys

import numpy as np
import pytest
from PIL import Image

from speedup_patch.errors import InputError
from speedup_patch.video.files import write_video

COLOURS = ((200, 40, 40), (40, 200, 40), (40, 40, 200))


def frames(count=9, size=(36, 64)):
    for number in range(count):
        yield np.full((*size, 3), COLOURS[number * 3 // count], np.uint8)


def test_an_mp4_is_h264_that_browsers_play(tmp_path):
    av = pytest.importorskip("av")
    write_video(frames(), 25.0, tmp_path / "film.mp4")
    with av.open(str(tmp_path / "film.mp4")) as container:
        stream = container.streams.video[0]
        pictures = [frame.to_ndarray(format="rgb24") for frame in container.decode(stream)]
        assert (stream.codec_context.name, stream.codec_context.pix_fmt) == ("h264", "yuv420p")
        assert (stream.width, stream.height, float(stream.average_rate)) == (64, 36, 25.0)
    assert len(pictures) == 9
    for picture, expected in zip(pictures, frames(), strict=True):
        np.testing.assert_allclose(picture.mean(axis=(0, 1)), expected[0, 0], atol=12)


def test_a_gif_lasts_as_long_as_the_film(tmp_path):
    write_video(frames(), 20.0, tmp_path / "film.gif")
    with Image.open(tmp_path / "film.gif") as gif:
        lasts, shown = 0, []
        for number in range(gif.n_frames):
            gif.seek(number)
            lasts += gif.info["duration"]
            shown.append(gif.convert("RGB").getpixel((5, 5)))
        assert gif.info["loop"] == 0
    assert lasts == pytest.approx(1000 * 9 / 20, abs=60)
    assert [colour for colour in COLOURS if colour not in shown] == []


def test_a_film_of_another_kind_is_refused(tmp_path):
    with pytest.raises(InputError, match=r"must end in \.mp4 or \.gif"):
        write_video(frames(), 25.0, tmp_path / "film.avi")


def test_a_film_that_breaks_off_leaves_nothing(tmp_path):
    def broken():
        yield from frames(2)
        raise InputError("cannot be replayed")

    with pytest.raises(InputError, match="cannot be replayed"):
        write_video(broken(), 25.0, tmp_path / "film.gif")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(("package", "ending"), [("av", "mp4"), ("PIL", "gif")])
def test_a_missing_package_is_named_with_its_extra(tmp_path, monkeypatch, package, ending):
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(InputError, match=r"pip install 'speedup-patch\[video\]'"):
        write_video(frames(), 25.0, tmp_path / f"film.{ending}")
