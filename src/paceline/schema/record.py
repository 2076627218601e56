"""What all records share: frozen, unknown keys refused with the nearest known one, written whole or not at all."""

from __future__ import annotations

import json
import os
import tempfile
from pathlib import Path
from typing import Any

import yaml
from pydantic import BaseModel, ConfigDict, ValidationError
from typing_extensions import Self

from paceline.errors import ConfigError, nearest

MOST = 1e12  # of seconds, rates and samples: sums of such numbers are still exact enough
MOST_BYTES = 1e15


class Record(BaseModel):
    """A frozen record that reads from YAML or JSON and writes JSON atomically."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    @classmethod
    def read(cls, path: Path) -> Self:
        """Load a YAML or JSON file.

        Raises:
            ConfigError: the file is missing, is not YAML, or does not fit the record; names file and key.
        """
        try:
            content = yaml.load(path.read_text(), Loader=_Loader)
        except OSError as error:
            remedy = "Name a file in it." if path.is_dir() else "Check the path."
            raise ConfigError(f"{path} cannot be read: {error.strerror}", remedy=remedy) from error
        except (yaml.YAMLError, ValueError, RecursionError) as error:
            reason = " ".join(str(error).split())
            if isinstance(error, yaml.MarkedYAMLError) and error.problem_mark is not None:
                reason = f"line {error.problem_mark.line + 1}: {error.problem}"
            raise ConfigError(f"{path} is not YAML: {reason}", remedy="Mend the file and try again.") from error
        return cls.parse(content, str(path))

    @classmethod
    def parse(cls, content: Any, where: str) -> Self:
        """Check ``content`` (as loaded from a file); ``where`` names its source in errors."""
        if not isinstance(content, dict):
            raise ConfigError(f"found {type(content).__name__}", expected="a mapping of keys", where=where)
        try:
            return cls.model_validate(content)
        except ValidationError as error:
            raise _explained(cls, error, where) from error

    def write(self, path: Path) -> None:
        """Write as JSON; a reader sees the old file or the whole new one, never a part."""
        write_atomically(path, self.model_dump_json(indent=2) + "\n")


class _Loader(yaml.SafeLoader):
    """Refuses a key that stands twice in one mapping, of which YAML would quietly take the last."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        keys = [key.value for key, _ in node.value]
        for key, _ in node.value:
            if keys.count(key.value) > 1:
                raise yaml.MarkedYAMLError(problem=f"key '{key.value}' stands twice", problem_mark=key.start_mark)
        return super().construct_mapping(node, deep)


def write_atomically(path: Path, text: str) -> None:
    """Write ``text`` to a temporary file beside ``path`` and rename it into place.

    Raises:
        ConfigError: there is something at ``path`` that is no file.
    """
    if path.exists() and not path.is_file():
        raise ConfigError(f"{path} is no file", remedy="Choose another name.")
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "w") as file:
            file.write(text)
        os.chmod(temporary, 0o644)
        os.replace(temporary, path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise


def _explained(cls: type[BaseModel], error: ValidationError, where: str) -> ConfigError:
    every = error.errors()
    first = next((one for one in every if one["type"] == "extra_forbidden"), every[0])  # a misspelt key is missing too
    path = [str(part) for part in first["loc"] if str(part).isidentifier() or isinstance(part, int)]
    key = ".".join(path)
    if first["type"] == "extra_forbidden":
        known = _fields_at(cls.model_json_schema(), first["loc"][:-1])
        return ConfigError(f"unknown key '{key}'", remedy=nearest(path[-1], known), where=where)
    if first["type"] == "missing":
        return ConfigError(f"key '{key}' is missing", where=where, remedy="Add it, or name another file.")
    seen = json.dumps(first["input"], default=str)
    what = f"key '{key}' is {seen[:80]}: {first['msg']}" if key else first["msg"].removeprefix("Value error, ")
    return ConfigError(what, where=where, remedy="Mend the file and try again.")


def _fields_at(schema: dict[str, Any], loc: tuple[int | str, ...]) -> list[str]:
    """Names of the fields at ``loc`` of a JSON schema, following references and array items."""
    node = schema
    for step in loc:
        if isinstance(step, int):
            node = node.get("items", {})
        else:
            node = node.get("properties", {}).get(step, node.get("additionalProperties", {}))
        for choice in [node, *node.get("anyOf", ())]:
            if (reference := choice.get("$ref", "").rpartition("/")[2]) in schema.get("$defs", {}):
                node = schema["$defs"][reference]
                break
    return list(node.get("properties", {}))
