"""Stages, each in a process of its own and in a folder with nothing but what dvc.yaml says that it reads.

    python -m tiny.alone SOURCES < [[folder, stage, name ...], ...]

Each leaves seen.json in its folder: the modules of the package that it imported, the files of the package that it read, the
functions of the package that it called (file and first line), and its last words if it failed. The machine's settings and what
watches a training are left out: they are not the stage.
"""

import json
import os
import sys
import threading
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from inspect import CO_NEWLOCALS
from pathlib import Path
from types import FrameType, SimpleNamespace

SOURCE = Path(sys.argv[1])
INSIDE = f"{SOURCE}/r"


def files() -> set[str]:
    """Of the package, as far as they are imported."""
    found = {getattr(module, "__file__", None) for module in list(sys.modules.values())}
    return {str(Path(file).relative_to(SOURCE)) for file in found if file and Path(file).is_relative_to(SOURCE)}


def seen(stage: str, names: list[str]) -> dict:
    opened: list[str] = []
    sys.addaudithook(lambda event, arguments: opened.append(str(arguments[0])) if event == "open" else None)
    from reproduction.pipeline import stages, surroundings

    surroundings.training = _train
    surroundings.machine = lambda: SimpleNamespace(decoding_batch=1024)
    before, error = files(), ""
    with called() as functions:
        try:
            getattr(stages, stage)(*names)
        except BaseException:
            error = traceback.format_exc()
    data = {str(Path(path).relative_to(SOURCE)) for path in opened if Path(path).is_relative_to(SOURCE)}
    return {
        "before": sorted(before),
        "imported": sorted(files() - before),
        "read": sorted(path for path in data if not path.endswith(".py") and "__pycache__" not in path),
        "called": sorted(functions),
        "error": error,
    }


@contextmanager
def called() -> Iterator[set[tuple[str, int]]]:
    """File and first line of each function of the package that is called; but for comprehensions outside of functions."""
    found = set[tuple[str, int]]()

    def trace(frame: FrameType, *_: object) -> None:
        code, caller = frame.f_code, frame.f_back
        if code.co_filename.startswith(INSIDE) and code.co_filename.endswith(".py") and _is_function(frame):
            if code.co_name != "<lambda>" and code.co_name.startswith("<") and not (caller and _is_function(caller)):
                return
            found.add((str(Path(code.co_filename).relative_to(SOURCE)), code.co_firstlineno))

    sys.settrace(trace)
    threading.settrace(trace)
    try:
        yield found
    finally:
        sys.settrace(None)
        threading.settrace(None)


def _is_function(frame: FrameType) -> bool:
    """And not the body of a class or of a module."""
    return bool(frame.f_code.co_flags & CO_NEWLOCALS)


def _train(job: object, train) -> None:
    from reproduction.training.recipe import Execution, Observer

    train(Execution(), Observer())


def main() -> None:
    sys.path.insert(0, sys.argv[1])
    for folder, stage, *names in json.load(sys.stdin):
        child = os.fork()
        if child == 0:
            os.chdir(folder)
            Path("seen.json").write_text(json.dumps(seen(stage, names)))
            os._exit(0)
        os.waitpid(child, 0)


if __name__ == "__main__":
    main()
