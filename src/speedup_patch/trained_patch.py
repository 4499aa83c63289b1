"""A patch as it leaves training: with torch, able to save itself."""

from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from speedup_patch.artefacts import write_folder_atomically, write_json
from speedup_patch.event_files import keep_events
from speedup_patch.interfaces import WorldModel
from speedup_patch.runtime.engine import Engine, patch_engine
from speedup_patch.runtime.export import export_scheduler, export_world_model
from speedup_patch.runtime.patch_folder import LoadedPatch, PatchDescription
from speedup_patch.scheduler.model import TrainedScheduler
from speedup_patch.training_log import TRAINING


@dataclass(frozen=True, eq=False)
class TrainedPatch:
    """Everything that a patch folder holds."""

    description: PatchDescription
    world_model: WorldModel
    scheduler: TrainedScheduler
    training: dict[str, Any]
    """The curves of the training (see training_log.py)."""

    def save(self, path: Path, overwrite: bool = False, events: Path | None = None) -> None:
        """Writes the folder whole or not at all, with the TensorBoard files found in ``events``."""
        with write_folder_atomically(path, overwrite) as folder:
            self.description.write(folder)
            self.world_model.save(folder)
            self.scheduler.save(folder)
            export_world_model(folder, self.description.robot)
            export_scheduler(folder, self.description.robot)
            write_json(folder / TRAINING, self.training)
            if events is not None:
                keep_events(events, folder)

    def loaded(self) -> LoadedPatch:
        """The patch ready to run, computed by torch; one read from its folder is computed by onnxruntime."""
        known = {field.name: getattr(self.description, field.name) for field in fields(self.description)}
        scheduler = self.scheduler
        return LoadedPatch(**known, chooser=scheduler.chooser, choices=scheduler.choices, world_model=self.world_model)

    def engine(self) -> Engine:
        """The engine that runs it."""
        return patch_engine(self.loaded())
