"""Workers do what they are told, and do not outlive the program that started them."""

import os
import signal
import subprocess
import sys

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
        os.kill(int(program.stdout.readline()), 0)  # raises where there is no such worker
        program.send_signal(how)
        rest, _ = program.communicate(timeout=600)  # until nobody is left who could write there
        assert rest == ""
