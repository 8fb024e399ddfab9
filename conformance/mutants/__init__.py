"""The mutants: importing this package registers all of them in `MUTANTS`. Knows the reference server."""

from __future__ import annotations

from importlib import import_module
from pkgutil import iter_modules

from conformance.mutants.harness import MUTANTS, Mutant

# Every module here that is not machinery holds mutants; a new one is found without being listed.
_MACHINERY = {"harness", "middle", "reference", "machine", "run"}
for _module in sorted(module.name for module in iter_modules(__path__)):
    if _module not in _MACHINERY:
        import_module(f"{__name__}.{_module}")

__all__ = ["MUTANTS", "Mutant"]
