"""Replays of stages other than training: the present code runs them on the inputs of the former code."""

import json
import shutil
import threading
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from raretokens import paths
from raretokens.errors import UserError
from raretokens.files import write_text
from raretokens.pipeline import renames
from raretokens.pipeline.lock_file import Stage, files_of, md5_of
from raretokens.pipeline.short_training import Code


@dataclass
class Replay:
    """Replay of the selected stages of a scale in a separate folder, with links to inputs that no selected stage writes."""

    code: Code
    source: Path  # folder of the scale with the outputs of the former code
    stages: list[Stage]  # all stages of its dvc.lock
    selected: set[str]  # names of the stages that run again
    folder: Path  # folder of the replay
    found: dict[str, str | None] = field(default_factory=dict)  # stage -> difference
    locks: dict[str, threading.Lock] = field(default_factory=dict)

    def __post_init__(self) -> None:
        shutil.rmtree(self.folder, ignore_errors=True)
        self.locks = {name: threading.Lock() for name in self.selected}
        for stage in self.stages:
            if stage.new is not None:
                write_text(self.folder / stage.new_job, stage.new)

    def difference(self, stage: Stage) -> str | None:
        """Run a stage after the stages that write its inputs. Return how its outputs differ, or None if they are equal."""
        with self.locks[stage.name]:
            if stage.name not in self.found:
                try:
                    for path in stage.deps:
                        self._provide(path)
                    self.code.run(stage.new_arguments, self.folder, f"{stage.name}.txt")
                    self.found[stage.name] = next(filter(None, map(self._compare, stage.outs.items())), None)
                except UserError as error:
                    self.found[stage.name] = str(error)
            return self.found[stage.name]

    def _provide(self, path: str) -> None:
        """Make an input available in the folder: run the stage that writes it if selected, else link to its output."""
        for stage in self.stages:
            for out in stage.outs:
                if Path(out).is_relative_to(path) or Path(path).is_relative_to(out):
                    if stage.name in self.selected:
                        self.difference(stage)
                    else:
                        self._link(out)

    def _link(self, out: str) -> None:
        target, link = (self.source / out).absolute(), self.folder / renames.path(out)
        if not target.exists():
            return
        if target.is_dir() and renames.COLUMNS and Path(out).is_relative_to(paths.RUNS):
            for file in target.iterdir():  # translate log.tsv to present names
                present = renames.present(file.name, file.read_bytes()) if file.suffix in (".tsv", ".json") else None
                _link(file, link / file.name, present)
        else:
            _link(target, link)

    def _compare(self, out: tuple[str, str]) -> str | None:
        """Return how an output differs, or None if it is equal."""
        path, md5 = out
        if renames.is_dropped(path):
            return None
        new, old, present = self.folder / renames.path(path), self.source / path, self.source / renames.path(path)
        if not new.exists():
            return f"{path}: the new code does not write it"
        if md5_of(new) == md5 or (present.is_file() and present.read_bytes() == new.read_bytes()):
            return None
        if not old.exists() or md5_of(old) != md5:
            return f"{path}: not the md5 in dvc.lock, {md5}"
        names = {file: renames.path(str(Path(path) / file)) for file in files_of(old)}
        for file, name in names.items():
            made = self.folder / name
            if not renames.is_dropped(name) and not (made.is_file() and _same(old / file, made)):
                return f"{Path(path) / file}"
        extra = {str(Path(renames.path(path)) / file) for file in files_of(new)} - set(names.values())
        return f"{sorted(extra)[0]}: only the new code writes it" if extra else None


def _link(target: Path, link: Path, content: bytes | None = None) -> None:
    link.parent.mkdir(parents=True, exist_ok=True)
    with suppress(FileExistsError):
        if content is None:
            link.symlink_to(target)
        else:
            link.write_bytes(content)


def _same(old: Path, new: Path) -> bool:
    return renames.same_content(new.name, old.read_bytes(), new.read_bytes())


def distinct(stages: Iterable[Stage]) -> list[Stage]:
    """Return the first stage of each group whose parameters differ only in name, seed and hashes."""
    found: dict[str, Stage] = {}
    for stage in stages:
        job = json.loads(stage.old)["job"]
        for key in renames.HASHES:
            job.pop(key, None)
        for key in ("name", "seed"):
            job.get("run", {}).pop(key, None)
        found.setdefault(stage.kind + json.dumps(job, sort_keys=True), stage)
    return list(found.values())
