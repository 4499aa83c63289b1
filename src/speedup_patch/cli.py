"""The command ``sup``: one function per subcommand. Bad input ends with one clear line and exit code 2."""

import os
import sys

import tyro

from speedup_patch.commands.bench import bench
from speedup_patch.commands.check import check
from speedup_patch.commands.collect import collect
from speedup_patch.commands.demo import demo
from speedup_patch.commands.evaluate import evaluate
from speedup_patch.commands.inspect import inspect
from speedup_patch.commands.report import report
from speedup_patch.commands.robots import robots
from speedup_patch.commands.serve import serve
from speedup_patch.commands.train import train
from speedup_patch.commands.video import video
from speedup_patch.errors import DecisionError, InputError

app = tyro.extras.SubcommandApp()
for name, command in {
    "collect": collect,
    "inspect": inspect,
    "train": train,
    "check": check,
    "eval": evaluate,
    "bench": bench,
    "report": report,
    "video": video,
    "demo": demo,
    "serve": serve,
    "robots": robots,
}.items():
    app.command(name=name)(command)


def main() -> None:
    """Entry point of the console script."""
    try:
        app.cli(prog="sup", description="Make a learned robot policy faster, without retraining it.")
    except InputError as error:
        print(f"sup: {error}", file=sys.stderr)
        sys.exit(2)
    except DecisionError as error:
        print(f"sup: {error}", file=sys.stderr)
        sys.exit(1)
    except BrokenPipeError:  # the reader of our output had enough, as in ``sup inspect ... | head``
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(0)
    except KeyboardInterrupt:
        print("sup: stopped", file=sys.stderr)
        sys.exit(130)
