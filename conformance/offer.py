"""What a target offers: profiles, a model, configurations; from ``--features FILE`` or the command line."""

from __future__ import annotations

import os
import tomllib
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final, Protocol

import attrs

from conformance.specdoc import PROFILES
from conformance.target import Target, TcpTarget, UsageError
from conformance.transcript import Case

SCRIPTED: Final = "scripted-model"
Config = tuple[str, ...]


class Unavailable(Exception):
    """A configuration that the target does not offer; the text names it."""


@attrs.frozen(kw_only=True)
class Features:
    """``profiles`` in capitals. With a ``model``, a real one answers, and no script can be relied on."""

    profiles: frozenset[str] = frozenset(("CORE",))
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


def read_features(path: Path) -> Features:
    """A features file (TOML); raises `UsageError` for what cannot be understood."""
    try:
        data = tomllib.loads(path.read_text("utf-8"))
    except (OSError, ValueError) as exc:
        raise UsageError(f"{path}: {exc}") from None
    for key, value in data.items():
        if key not in _KEYS:
            raise UsageError(f"{path}: unknown key {key!r}")
        if not isinstance(value, _KEYS[key]):
            raise UsageError(f"{path}: {key} must be a {_KEYS[key].__name__}")
    for name, config in data.get("configs", {}).items():
        if not isinstance(config, dict) or not isinstance(config.get("url"), str):
            raise UsageError(f"{path}: configs.{name} needs a url")
    profiles = read_profiles(data.pop("profiles", ["core"]))
    return Features(**{"scripted": "model" not in data, **data, "profiles": profiles})


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
        wanted = tuple(token for token in config if not (token == "api-key" and self.key))
        if not wanted:
            return TcpTarget.of(self.url, self.key, model)
        configs = self.features.configs
        entry = configs.get(config_name(wanted)) or configs.get(config_name(config))
        if entry is None:
            name = config_name(config)
            where = f'[configs."{name}"] in a features file says where one is'
            raise Unavailable(f"the target does not offer the configuration {name} ({where})")
        key = os.environ.get(entry["api_key_env"]) if "api_key_env" in entry else self.key
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


def needs_of(case: Case, selected: frozenset[str]) -> Needs:
    """``no-lanes`` asks for a server without lanes: the target itself, if that profile is not selected."""
    names = {profile.lower() for profile in PROFILES}
    profiles, config = set(), set()
    for token in case.needs:
        if token in names:
            profiles.add(token.upper())
        elif token.startswith("no-") and token[3:] in names:
            if token[3:].upper() in selected:
                config.add(f"without={token[3:]}")
        elif token != SCRIPTED:
            config.add(token)
    return Needs(SCRIPTED in case.needs, frozenset(profiles), tuple(sorted(config)))
