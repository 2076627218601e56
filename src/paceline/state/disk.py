"""Checkpoints on disk: whole or not there, whenever the process that writes one is killed.

    path/state.json            the completion mark, renamed into place last; names the data folder
    path/data-<unique>/        tensors as torch.distributed.checkpoint writes them, and rest.pt

torch.distributed.checkpoint takes a second to import, so that is done where it is used.
"""

from __future__ import annotations

import contextlib
import fcntl
import io
import os
import pickle
import re
import shutil
import uuid
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import save_file
from torch import Tensor

from paceline.errors import ConfigError
from paceline.schema.checkpoint import MARK, Contents, Part, State
from paceline.state.snapshot import Snapshot

REST = "rest.pt"
_DATA = re.compile("data-[0-9a-f]{32}")
_EARLIER = "Use another checkpoint."
METADATA: dict[str, Callable[[str, Any], bool]] = {  # what may stand in ``.metadata``, by module
    "torch.distributed.checkpoint.metadata": lambda name, found: isinstance(found, type),
    "torch.distributed.checkpoint.filesystem": lambda name, found: name == "_StorageInfo",
    "torch.serialization": lambda name, found: name == "_get_layout",
    "torch": lambda name, found: name == "Size" or isinstance(found, torch.dtype),
}


def save(path: Path, snapshot: Snapshot, state: State) -> None:
    """Write a checkpoint into the folder ``path``; the one before it stays whole until this one is.

    Needs no other process. Several that save to one path take turns, and the last one counts.

    Raises:
        ConfigError: the snapshot holds what cannot be read back, or the folder cannot be written; ``path`` still holds
            the checkpoint it held before.
    """
    rest = _packed(snapshot.rest)
    name = f"data-{uuid.uuid4().hex}"
    try:
        path.mkdir(parents=True, exist_ok=True)
        with _turn(path):
            try:
                _fill(path / name, snapshot.tensors, rest, state.model_copy(update={"data": name}))
                os.replace(path / name / MARK, path / MARK)
                _sync(path)
            finally:
                _sweep(path)
    except OSError as error:
        raise ConfigError(
            f"the checkpoint cannot be written: {error.strerror or error}", where=str(path),
            remedy="Save to another folder, or make room; a checkpoint that was there before is untouched.",
        ) from error  # fmt: skip


def load(path: Path) -> tuple[State, Snapshot]:
    """Read a checkpoint, all of it, onto the CPU. Nothing in it is executed, whoever wrote it.

    Raises:
        ConfigError: there is none, or it is damaged; names the file.
    """
    state = _state(path)
    try:
        data = path / state.data
        with _reading(data / REST):
            rest = torch.load(data / REST, map_location="cpu", weights_only=True)
        snapshot = Snapshot(_tensors(data), rest)
    except ConfigError:
        if _state(path).data == state.data:
            raise
        return load(path)  # a save came in between
    for kind, names in (("models", state.models), ("optimizers", state.optimizers)):
        if len(rest[kind]) != len(names):
            seen = f"{len(names)} {kind} in {MARK}"
            raise ConfigError(seen, expected=f"the {len(rest[kind])} of {state.data}", where=str(path), remedy=_EARLIER)
    return state, snapshot


def contents(path: Path) -> Contents:
    """What a checkpoint holds. All of it is read, so what is shown can be loaded.

    Raises:
        ConfigError: as ``load`` does.
    """
    state, snapshot = load(path)
    models = [_part(name, snapshot, (f"model.{index}.",)) for index, name in enumerate(state.models)]
    optimizers = [
        _part(name, snapshot, (f"optimizer.{index}.", f"parameter.{index}."))
        for index, name in enumerate(state.optimizers)
    ]
    return Contents(state=state, models=models, optimizers=optimizers)


def export(path: Path, out: Path, model: int | None) -> None:
    """Write one model's weights as a safetensors file with the names that plain torch gives them.

    Args:
        path: a checkpoint.
        out: a file that is not there yet.
        model: which one; None where there is only one.

    Raises:
        ConfigError: as ``load`` does; no such model; ``out`` exists or cannot be written.
    """
    if out.exists():
        raise ConfigError(f"{out} is there already", remedy="Choose another --out, or remove it.")
    if not out.parent.is_dir():
        raise ConfigError(f"there is no folder {out.parent}", remedy="Make it, or choose another --out.")
    state, snapshot = load(path)
    known = ", ".join(f"{index}: {name}" for index, name in enumerate(state.models))
    if model is None and len(state.models) != 1:
        raise ConfigError(f"{path} holds {len(state.models)} models ({known})", remedy="Choose one with --model.")
    number = model or 0
    if number >= len(state.models):
        raise ConfigError(
            f"{path} holds no model {number}", expected=f"one of {known}", remedy="Choose it with --model."
        )
    if others := snapshot.rest["models"][number]:
        raise ConfigError(
            f"model {number} keeps '{min(others)}', which is no tensor", expected="tensors only, as safetensors holds",
            remedy="Write the model's state_dict() with torch.save instead.",
        )  # fmt: skip
    prefix = f"model.{number}."
    tensors = {name.removeprefix(prefix): t for name, t in snapshot.tensors.items() if name.startswith(prefix)}
    filling = out.with_name(f".{out.name}.{os.getpid()}")
    try:
        save_file(tensors, filling, metadata={"format": "pt"})
        filling.chmod(0o644)
        os.replace(filling, out)
    except (SafetensorError, KeyError) as error:  # KeyError: a dtype it does not know
        raise ConfigError(f"{out} cannot be written: {error}", remedy="Choose another --out.") from error
    finally:
        filling.unlink(missing_ok=True)


def _packed(rest: dict[str, Any]) -> bytes:
    packed = _readable(rest)
    if packed is not None:
        return packed
    place, value = _unreadable("", rest)
    raise ConfigError(
        f"{place[1:]} is a {type(value).__name__}, which a checkpoint cannot hold",
        expected="numbers, strings, lists, dicts and tensors", remedy="Leave it out of what state_dict() returns.",
    )  # fmt: skip


def _readable(value: Any) -> bytes | None:
    """``value`` as bytes that read back without executing anything; None if there are no such."""
    stream = io.BytesIO()
    try:
        torch.save(value, stream)
        stream.seek(0)
        torch.load(stream, weights_only=True)
    except Exception:  # whatever pickling a stranger's object raises
        return None
    return stream.getvalue()


def _unreadable(place: str, value: Any) -> tuple[str, Any]:
    """The innermost part that is to blame, and where it is."""
    parts = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, (list, tuple)) else ()
    for key, part in parts:
        if _readable(part) is None:
            return _unreadable(f"{place}.{key}", part)
    return place, value


def _fill(data: Path, tensors: dict[str, Tensor], rest: bytes, state: State) -> None:
    """Write the data folder, down to the disk, and the future completion mark in it."""
    from torch.distributed.checkpoint import filesystem, state_dict_saver

    writer = filesystem.FileSystemWriter(data, sync_files=False)
    writer.path = str(data)  # it is pickled, and the text of a path can be read by every version of Python
    with _single("save"):
        state_dict_saver.save(tensors, storage_writer=writer, no_dist=True)
    (data / REST).write_bytes(rest)
    state.write(data / MARK)
    for file in data.iterdir():
        _sync(file)
    _sync(data)


def _tensors(data: Path) -> dict[str, Tensor]:
    from torch.distributed.checkpoint import filesystem, state_dict_loader

    with _reading(data / ".metadata") as file, file.open("rb") as stream:
        stored = _Metadata(stream).load().state_dict_metadata
    with _reading(data):
        tensors = {name: torch.empty(each.size, dtype=each.properties.dtype) for name, each in stored.items()}
        with _single("load"):
            state_dict_loader.load(tensors, storage_reader=filesystem.FileSystemReader(data), no_dist=True)
    return tensors


class _Metadata(pickle.Unpickler):
    """Reads ``.metadata``, which is a pickle, and refuses what does not belong there before torch reads it."""

    def find_class(self, module: str, name: str) -> Any:
        if module in METADATA and "." not in name:  # asked before the module is imported
            found = super().find_class(module, name)
            if METADATA[module](name, found):
                return found
        raise pickle.UnpicklingError(f"{module}.{name} is not part of a checkpoint")


@contextlib.contextmanager
def _single(what: str) -> Iterator[None]:
    """One process alone is what we want, so no warning of it; and the error itself, not torch's wrapping of it."""
    from torch.distributed.checkpoint.api import CheckpointException

    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", f"torch.distributed is disabled.*to {what} in a single process")
        try:
            yield
        except CheckpointException as error:
            (cause, _), *_ = error.failures.values()
            hidden: BaseException | None = cause
            while hidden is not None and not isinstance(
                hidden, OSError
            ):  # torch.save raises its own over a full disk's
                hidden = hidden.__context__
            raise hidden or cause from None


def _state(path: Path) -> State:
    if not (path / MARK).is_file():
        raise ConfigError(f"{path} holds no checkpoint: no {MARK}", remedy="Name a folder that run.save has written.")
    return State.read(path / MARK)


@contextlib.contextmanager
def _reading(file: Path) -> Iterator[Path]:
    try:
        yield file
    except OSError as error:
        raise ConfigError(f"{file} cannot be read: {error.strerror or error}", remedy=_EARLIER) from error
    except Exception as error:  # a damaged pickle can raise anything
        raise ConfigError(f"{file} is damaged ({type(error).__name__})", remedy=_EARLIER) from error


@contextlib.contextmanager
def _turn(path: Path) -> Iterator[None]:
    """One saver at a time, so that none sweeps away what another is writing; where files have no locks, without."""
    handle = os.open(path, os.O_RDONLY)
    try:
        with contextlib.suppress(OSError):
            fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)


def _sweep(path: Path) -> None:
    """Remove data folders that the mark does not name: the one before, and what killed or failed saves left."""
    try:
        kept = State.read(path / MARK).data
    except ConfigError:
        if (path / MARK).exists():
            return
        kept = ""
    for folder in path.iterdir():
        if _DATA.fullmatch(folder.name) and folder.name != kept:
            shutil.rmtree(folder, ignore_errors=True)


def _sync(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _part(name: str, snapshot: Snapshot, prefixes: tuple[str, ...]) -> Part:
    tensors = [tensor for key, tensor in snapshot.tensors.items() if key.startswith(prefixes)]
    return Part(
        name=name,
        tensors=len(tensors),
        values=sum(tensor.numel() for tensor in tensors),
        bytes=sum(tensor.nbytes for tensor in tensors),
        dtypes=sorted({str(tensor.dtype).removeprefix("torch.") for tensor in tensors}),
    )
