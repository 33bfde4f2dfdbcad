"""Replays of stages other than training: the present code runs them on the inputs of the former code."""

import shutil
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from raretokens import paths
from raretokens.errors import UserError
from raretokens.files import write_text
from raretokens.pipeline import renames
from raretokens.pipeline.lock_file import Stage, files_of, md5, md5_of
from raretokens.pipeline.trials import PRESENT
from raretokens.report.revision import Revision


@dataclass
class Replay:
    """Replay of the selected stages of a scale in a separate folder, with links to inputs that no selected stage writes."""

    revision: str  # commit of the former code
    source: Path  # folder of the scale with the outputs of the former code
    stages: list[Stage]  # all stages of its dvc.lock
    selected: list[Stage]  # stages that run again
    folder: Path  # folder of the replay
    found: dict[str, str | None] = field(default_factory=dict)  # stage -> difference

    def __post_init__(self) -> None:
        self.locks = {stage.name: threading.Lock() for stage in self.selected}
        self.linking = threading.Lock()
        shutil.rmtree(self.folder, ignore_errors=True)
        for stage in self.stages:
            if stage.new is not None:
                write_text(self.folder / stage.new_job, stage.new.decode())

    def difference(self, stage: Stage) -> str | None:
        """Run a stage after the stages that write its inputs. Return how its outputs differ, or None if they are equal."""
        with self.locks[stage.name]:
            if stage.name not in self.found:
                try:
                    for path in stage.deps:
                        self._provide(path)
                    PRESENT.run(stage.new_arguments, self.folder, f"{stage.name}.txt")
                    differences = (why for out in stage.outs.items() for why in self._compare(*out))
                    self.found[stage.name] = next(differences, None)
                except UserError as error:
                    self.found[stage.name] = str(error)
            return self.found[stage.name]

    def _provide(self, path: str) -> None:
        """Make an input available in the folder: run the stage that writes it if selected, else link to its output."""
        for stage in self.stages:
            for out in stage.outs:
                if Path(out).is_relative_to(path) or Path(path).is_relative_to(out):
                    if stage.name in self.locks:
                        self.difference(stage)
                    else:
                        self._link(out)

    def _link(self, out: str) -> None:
        """Link to an output of the former code. In a run, files whose columns or keys were renamed are translated copies."""
        target, link = (self.source / out).absolute(), self.folder / renames.path(out)
        with self.linking:  # stages of other threads may read the same output, and need all of its files
            if not target.exists() or link.exists():
                return
            link.parent.mkdir(parents=True, exist_ok=True)
            if not (target.is_dir() and renames.COLUMNS and Path(out).is_relative_to(paths.RUNS)):
                link.symlink_to(target)
                return
            link.mkdir()
            for file in target.iterdir():
                if file.suffix in (".tsv", ".json"):
                    (link / file.name).write_bytes(renames.present(file.name, file.read_bytes()))
                else:
                    (link / file.name).symlink_to(file)

    def _compare(self, path: str, recorded: str) -> Iterator[str]:
        """Yield how an output differs from the md5 in dvc.lock."""
        new, old = self.folder / renames.path(path), self.source / path
        if not new.exists():
            yield f"{path}: the new code does not write it"
        elif md5_of(new) == recorded:
            return
        elif not old.exists() or md5_of(old) != recorded:  # as a report that is committed anew under present names
            then = Revision(self.revision, self.source).read(path) or b""
            if md5(then) != recorded:
                yield f"{path}: not the md5 in dvc.lock, {recorded}"
            elif not renames.same_content(path, then, new.read_bytes()):
                yield path
        else:
            names = {file: renames.path(str(Path(path) / file)) for file in files_of(old)}
            for file, name in names.items():
                made = self.folder / name
                if not (made.is_file() and renames.same_content(name, (old / file).read_bytes(), made.read_bytes())):
                    yield f"{Path(path) / file}"
            written = {str(Path(renames.path(path)) / file) for file in files_of(new)}
            yield from (f"{file}: only the new code writes it" for file in sorted(written - {*names.values()}))
