"""Workers do what they are told, and do not outlive the program that started them."""

import os
import signal
import subprocess
import sys
import time

import pytest

from speedup_patch.workers import worker_pool

PROGRAM = """
import os, time
from speedup_patch.workers import worker_pool

if __name__ == "__main__":
    with worker_pool(1) as pool:
        print(pool.submit(os.getpid).result(), flush=True)
        pool.submit(time.sleep, 600).result()
"""


def test_a_worker_begins_as_it_is_told(tmp_path):
    with worker_pool(1, os.chdir, (str(tmp_path),)) as pool:
        assert pool.submit(os.getcwd).result() == str(tmp_path.resolve())
        assert pool.submit(os.getpid).result() != os.getpid()


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGKILL])
def test_a_worker_ends_with_the_program_that_started_it(tmp_path, how):
    script = tmp_path / "program.py"
    script.write_text(PROGRAM)
    with subprocess.Popen([sys.executable, script], stdout=subprocess.PIPE, text=True) as program:
        assert program.stdout is not None
        worker = int(program.stdout.readline())
        assert _lives(worker)
        program.send_signal(how)
        program.wait(60)
        deadline = time.monotonic() + 60
        while _lives(worker) and time.monotonic() < deadline:
            time.sleep(0.05)
        assert not _lives(worker)


def _lives(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    return True
