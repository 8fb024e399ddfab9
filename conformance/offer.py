"""What a target offers: profiles, a model, configurations; from ``--features FILE`` or the command line."""

from __future__ import annotations

import math
import os
import tomllib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Final, Protocol

import attrs

from conformance.specdoc import PROFILES
from conformance.target import Target, TcpTarget, UsageError, parse_url
from conformance.transcript import Case

SCRIPTED: Final = "scripted-model"
STOPPABLE: Final = "stoppable"
Config = tuple[str, ...]


class Unavailable(Exception):
    """A configuration that the target does not offer; the text names it."""


@attrs.frozen(kw_only=True)
class Features:
    """``profiles`` in capitals: those to judge. ``offered``: those that the target has, if somebody says so.
    With a ``model``, a real one answers, and no script can be relied on."""

    profiles: frozenset[str] = frozenset(("CORE",))
    offered: frozenset[str] | None = None
    model: str | None = None
    scripted: bool = True
    limits: dict[str, Any] = attrs.Factory(dict)
    configs: dict[str, dict[str, Any]] = attrs.Factory(dict)


class Offer(Protocol):
    """A target in all its configurations. ``own_servers``: they are ours, and can be driven side by side."""

    @property
    def features(self) -> Features: ...

    @property
    def name(self) -> str: ...

    @property
    def own_servers(self) -> bool: ...

    async def target(self, config: Config) -> Target:
        """The server for that configuration; raises `Unavailable` or `Unreachable`."""
        ...


def read_profiles(text: str | Iterable[str]) -> frozenset[str]:
    """``core,warm`` -> names of profiles; CORE is always among them."""
    names = {name.strip().upper() for name in (text.split(",") if isinstance(text, str) else text)}
    unknown = sorted(names - set(PROFILES) - {""})
    if unknown:
        known = ", ".join(PROFILES).lower()
        raise UsageError(f"no such profile: {', '.join(unknown).lower()} (there are {known})")
    return frozenset(names - {""}) | {"CORE"}


_KEYS: Final = {"profiles": list, "model": str, "scripted": bool, "limits": dict, "configs": dict}
_CONFIG_KEYS: Final = {"url": str, "api_key_env": str}


def read_features(path: Path) -> Features:
    """A features file (TOML); raises `UsageError` for what cannot be understood."""
    try:
        data = tomllib.loads(path.read_text("utf-8"))
    except (OSError, ValueError) as exc:
        raise UsageError(f"{path}: {exc}") from None
    _check_keys(data, _KEYS, str(path), "")
    for name, limit in data.get("limits", {}).items():
        if type(limit) not in (int, float) or not math.isfinite(limit):
            raise UsageError(f"{path}: limits.{name} must be a number")
    for name, config in data.get("configs", {}).items():
        if not isinstance(config, dict) or "url" not in config:
            raise UsageError(f"{path}: configs.{name} needs a url")
        if STOPPABLE in name.split(","):
            raise UsageError(f"{path}: configs.{name}: a server at a URL cannot be stopped from here")
        _check_keys(config, _CONFIG_KEYS, str(path), f"configs.{name}.")
        parse_url(config["url"])
    offered = read_profiles(map(str, data.pop("profiles"))) if "profiles" in data else None
    profiles = offered or frozenset(("CORE",))
    return Features(**{"scripted": "model" not in data, **data, "profiles": profiles, "offered": offered})


def _check_keys(data: dict[str, Any], known: Mapping[str, type], path: str, prefix: str) -> None:
    for key, value in data.items():
        if key not in known:
            raise UsageError(f"{path}: unknown key {prefix + key!r} (there are {', '.join(known)})")
        if not isinstance(value, known[key]):
            raise UsageError(f"{path}: {prefix}{key} must be a {known[key].__name__}")


def lacking(case: Case) -> frozenset[str]:
    """The profiles that a server for this case must not have."""
    names = {token.removeprefix("no-").upper() for token in case.needs if token.startswith("no-")}
    return frozenset(names.intersection(PROFILES))


def config_name(config: Config) -> str:
    """How a configuration is called in a features file."""
    return ",".join(sorted(config))


@attrs.frozen
class Foreign:
    """A server at a URL that somebody else runs."""

    url: str
    features: Features
    key: str | None = None
    own_servers: bool = False

    @property
    def name(self) -> str:
        return self.url

    async def target(self, config: Config) -> Target:
        model = self.features.model or "scripted"
        if STOPPABLE in config:
            raise Unavailable("a server at a URL cannot be stopped from here")
        wanted = tuple(token for token in config if not (token == "api-key" and self.key))
        if not wanted:
            return TcpTarget.of(self.url, self.key, model)
        configs = self.features.configs
        entry = configs.get(config_name(wanted)) or configs.get(config_name(config))
        if entry is None:
            name = config_name(config)
            where = f'[configs."{name}"] in a features file says where one is'
            raise Unavailable(f"the target does not offer the configuration {name} ({where})")
        key = self.key
        if "api_key_env" in entry and not (key := os.environ.get(entry["api_key_env"])):
            name = entry["api_key_env"]
            raise Unavailable(f"the environment variable {name} of the features file is empty or not set")
        return TcpTarget.of(entry["url"], key, model)


@attrs.frozen
class Needs:
    """The ``needs`` of a case, sorted out."""

    scripted: bool
    profiles: frozenset[str]
    config: Config

    @property
    def switched_off(self) -> frozenset[str]:
        """The profiles that this configuration's server does not have."""
        tokens = [token.removeprefix("without=") for token in self.config if token.startswith("without=")]
        return frozenset(name.upper() for token in tokens for name in token.split(","))

    @property
    def dialects(self) -> list[str]:
        """The dialects that this configuration's server speaks on every connection."""
        return [token.removeprefix("dialect=") for token in self.config if token.startswith("dialect=")]


def needs_of(case: Case, present: frozenset[str]) -> Needs:
    """``no-lanes`` asks for a server without lanes: the target itself, unless it has them."""
    names = {profile.lower() for profile in PROFILES}
    profiles, config = set(), set()
    for token in case.needs:
        if token in names:
            profiles.add(token.upper())
        elif token.startswith("no-") and token[3:] in names:
            if token[3:].upper() in present:
                config.add(f"without={token[3:]}")
        elif token != SCRIPTED:
            config.add(token)
    return Needs(SCRIPTED in case.needs, frozenset(profiles), tuple(sorted(config)))
