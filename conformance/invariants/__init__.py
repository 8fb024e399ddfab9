"""The invariants: importing this package registers all of them in `REGISTRY`."""

from __future__ import annotations

from importlib import import_module
from pkgutil import iter_modules

from conformance.invariants.base import REGISTRY, Invariant

# Every module here that is not machinery holds invariants; a new one is found without being listed.
_MACHINERY = {"base", "literal", "shapes"}
for _module in sorted(module.name for module in iter_modules(__path__)):
    if _module not in _MACHINERY:
        import_module(f"{__name__}.{_module}")

__all__ = ["REGISTRY", "Invariant"]
