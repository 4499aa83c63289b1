"""A run folder holds one run: what it says belongs to the policy and the patches that are there now."""

import pytest

from speedup_patch.errors import InputError
from speedup_patch.evaluation.episodes import drop_cut_line, read_episodes
from speedup_patch.evaluation.run import EvaluationConfig, _refuse_other_run, content_digest


@pytest.fixture
def patch(tmp_path):
    folder = tmp_path / "my.patch"
    folder.mkdir()
    (folder / "patch.json").write_text("{}")
    return folder


def config(patch, env="aloha/insertion"):
    return EvaluationConfig(env, "bundled:aloha/insertion", ("base", f"mpc:{patch}", f"dwell+{patch}"), 1)


def test_a_patch_is_known_by_its_content(patch):
    before = content_digest(f"mpc:{patch}")
    assert (
        before == content_digest(str(patch)) == content_digest(f"dwell+mpc:{patch}") == content_digest(f"dwell+{patch}")
    )
    (patch / "patch.json").write_text('{"trained": "again"}')
    assert content_digest(str(patch)) != before
    assert content_digest("base") is content_digest("fixed:2") is None


def test_a_run_goes_on_until_its_patch_changes(patch, tmp_path):
    out = tmp_path / "run"
    out.mkdir()
    _refuse_other_run(config(patch), out)
    _refuse_other_run(config(patch), out)
    (patch / "patch.json").write_text('{"trained": "again"}')
    with pytest.raises(InputError, match=r"my\.patch has changed since"):
        _refuse_other_run(config(patch), out)


def test_a_run_of_another_environment_or_no_run_at_all_is_refused(patch, tmp_path):
    out = tmp_path / "run"
    out.mkdir()
    _refuse_other_run(config(patch), out)
    with pytest.raises(InputError, match="holds a run of"):
        _refuse_other_run(config(patch, env="aloha/transfer"), out)
    with pytest.raises(InputError, match="not empty and holds no run"):
        _refuse_other_run(config(patch), patch)


def test_a_line_that_is_not_whole_is_left_out_and_only_a_new_run_removes_it(tmp_path):
    path = tmp_path / "episodes.jsonl"
    line = '{"scheduler": "base", "seed": 3, "success": true, "steps": 5, "decisions": []}\n'
    path.write_text(line + line[:30])
    assert [result.seed for result in read_episodes(path)["base"]] == [3]
    assert path.read_text() == line + line[:30]  # whoever writes it may be about to finish it
    drop_cut_line(path)
    assert path.read_text() == line
    assert read_episodes(tmp_path / "none.jsonl") == {}


def test_episodes_that_do_not_say_what_was_done_are_refused(tmp_path):
    path = tmp_path / "episodes.jsonl"
    older = '{"step": 0, "original": 24, "executed": 6, "reason": null}'
    path.write_text(f'{{"scheduler": "base", "seed": 3, "success": true, "steps": 5, "decisions": [{older}]}}\n')
    with pytest.raises(InputError, match=r"episodes\.jsonl, line 1 cannot be used: an older release.*--out"):
        read_episodes(path)
