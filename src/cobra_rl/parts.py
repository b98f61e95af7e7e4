"""Parts by name: the classes that people swap, how they are chosen, saved and found again.

A part is a class that is built from a configuration of its own, such as a reward predictor. Its annotation says which:

    class MyReward(Reward):
        config: MyConfig = eqx.field(static=True)      # MyConfig is a frozen dataclass and a RewardConfig

Each kind of part has names, listed here; a part of one's own needs no entry: its name is `file.py:Class` or
`module:Class`. A configuration that is saved names the class that it belongs to, as `class`. To read such a name is not
to import it: code of one's own is loaded when the user names it, or if the user trusts what a folder names.
"""

import importlib.util
import pkgutil
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, ClassVar, get_type_hints

from cobra_rl.bounds import Checked, renamed, shown

CLASS = "class"  # the entry of a saved configuration that names its class

REGISTRY: dict[str, dict[str, str]] = {  # kind -> name -> module:class, imported when it is asked for
    "vision": {"monet": "cobra_rl.models.monet:Monet"},
    "transition": {
        "paper": "cobra_rl.models.transition:SlotTransition",
        "law": "cobra_rl.models.transition:LawTransition",
    },
    "exploration": {"deformation": "cobra_rl.models.exploration:Deformation"},
    "curiosity": {"predicted_error": "cobra_rl.models.curiosity:PredictedError"},
    "reward": {
        "relation": "cobra_rl.models.reward:RelationReward",
        "object": "cobra_rl.models.reward:ObjectReward",
    },
    "planner": {
        "one_step": "cobra_rl.models.planner:OneStep",
        "shooting": "cobra_rl.models.planner:Shooting",
    },
    "agent": {
        "cobra": "cobra_rl.agents.cobra:Cobra",
        "mpo": "cobra_rl.agents.mpo:Mpo",
    },
}
_own: dict[str, tuple[type, type]] = {}  # the users' parts that were loaded, by name: class and configuration
_trusts: ContextVar[bool] = ContextVar("trusts", default=False)


@dataclass(frozen=True)
class PartConfig(Checked):
    """The configuration of a part. Its subclasses for a kind, such as RewardConfig, set `kind`."""

    kind: ClassVar[str]

    @classmethod
    def resolve(cls, data: Mapping[str, Any], where: str) -> tuple[type, dict[str, Any]]:
        """Find the class of a saved configuration; return it with the entries that are its fields.

        Older files name no class, or name it as `model`; theirs is the first with all the entries.
        """
        entries = dict(data)
        if CLASS not in entries and isinstance(entries.get("model"), str):
            entries[CLASS] = entries.pop("model")
        if CLASS in entries:
            return config_of(load_part(cls.kind, entries.pop(CLASS), where)), entries
        known = [cls, *(config_of(load_part(cls.kind, name)) for name in REGISTRY[cls.kind])]
        fits = (each for each in known if renamed(each, entries).keys() <= {field.name for field in fields(each)})
        return next(fits, cls), entries

    def to_json(self) -> dict[str, Any]:
        """Return the fields, and the name of the class that they belong to."""
        return {CLASS: name_of(self)} | {field.name: getattr(self, field.name) for field in fields(self)}


def make_part(config: PartConfig, *arguments: Any) -> Any:
    """Build the part of a configuration, with the arguments that parts of its kind take."""
    return part_of(config)(config, *arguments)


def part_of(config: PartConfig) -> type:
    """Return the class that a configuration belongs to; raise a ValueError if there is none."""
    return load_part(config.kind, name_of(config))


def name_of(config: PartConfig) -> str:
    """Return the name of the class that a configuration belongs to; raise a ValueError if there is none."""
    for name in (*_own, *REGISTRY[config.kind]):
        if config_of(load_part(config.kind, name)) is type(config):
            return name
    raise ValueError(
        f"{type(config).__name__} belongs to no {config.kind}; there are {', '.join(REGISTRY[config.kind])}, or "
        "FILE.py:CLASS."
    )


def load_part(kind: str, name: Any, where: str = "") -> type:
    """Return a class by its name in the registry, or by where a user defines it.

    Args:
        kind: The kind of part, such as "reward".
        name: A name in `REGISTRY`, `file.py:Class` or `module:Class`.
        where: The place in a file that names it; then code of a user's own is not loaded unless `trusting` says so, or
            the user named it in this process before. Empty: the user names it now.

    Raises:
        ValueError: If there is no such class, or it is no part of this kind.
    """
    if isinstance(name, str) and name in REGISTRY[kind]:
        return pkgutil.resolve_name(REGISTRY[kind][name])
    if not isinstance(name, str) or ":" not in name:
        raise ValueError(
            f"{f'{where}: there' if where else 'There'} is no {kind} {shown(name)}; choose one of "
            f"{', '.join(REGISTRY[kind])}, or your own as FILE.py:CLASS."
        )
    full = absolute_name(name)
    if full not in _own:
        if where and not _trusts.get():
            raise ValueError(
                f"{where} names code, {full}, as its {kind}, which is not run by opening a folder; if you trust it, "
                "add --trust (trust=True in Python)."
            )
        part = load_object(full, f"The {kind} is {full}")
        _own[full] = (part, _own_config(kind, full, part))
    return _own[full][0]


def config_of(part: type) -> Any:
    """Return the class of a part's configuration, which its annotation `config` names."""
    return next((config for own, config in _own.values() if own is part), None) or get_type_hints(part).get("config")


def is_trusting() -> bool:
    """Return whether the user trusts the code that folders name: see `trusting`."""
    return _trusts.get()


@contextmanager
def trusting(trust: bool) -> Iterator[None]:
    """Allow, within this context, to load the code that folders name as their parts."""
    token = _trusts.set(trust or _trusts.get())
    try:
        yield
    finally:
        _trusts.reset(token)


def absolute_name(name: str) -> str:
    """Make the path of a file in `file.py:name` absolute, so that it is found from any working directory."""
    where, colon, attribute = name.rpartition(":")
    return f"{Path(where).resolve()}:{attribute}" if colon and where.endswith(".py") else name


def short_name(name: str) -> str:
    """Return the name of a class without the file that it is in, for titles and folders."""
    return name.rpartition(":")[2]


def load_object(name: str, subject: str) -> Any:
    """Import what a user names as `file.py:name` or `module:name`; errors begin with the subject: "--env is NAME"."""
    where, _, attribute = name.rpartition(":")
    try:
        return getattr(load_module(where), attribute)
    except (ImportError, OSError, AttributeError, SyntaxError) as error:
        raise ValueError(f"{subject}, but nothing is found there: {error}.") from error
    except Exception as error:  # whatever a user's file does; --debug shows where
        raise ValueError(f"{subject}, but its code fails: {type(error).__name__}: {error}.") from error


def load_module(where: str) -> Any:
    """Import a module by its name, or a file by its path."""
    if not where.endswith(".py"):
        return importlib.import_module(where)
    path = Path(where).resolve()
    spec = importlib.util.spec_from_file_location(f"cobra_rl_user_{path.stem}", path)
    if spec is None or spec.loader is None or not path.exists():
        raise ImportError(f"there is no file {where}")
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def _own_config(kind: str, name: str, part: Any) -> type:
    """Return the class of the configuration of a user's part: a type of its own, if other parts have the same."""
    if not isinstance(part, type):
        raise ValueError(f"The {kind} is {name}, which is a {type(part).__name__}; it must be a class.")
    known = [load_part(kind, each) for each in REGISTRY[kind]]
    config = config_of(part)
    if getattr(config, "kind", None) != kind:
        raise ValueError(
            f"The {kind} is {name}; it must be a class with a configuration, as {known[0].__name__} has it."
        )
    if any(config is config_of(each) for each in (*known, *(own for own, _ in _own.values()))):
        return dataclass(frozen=True)(type(f"{part.__name__}Config", (config,), {"__doc__": config.__doc__}))
    return config
