"""Model resolution: which engine serves a model's name. Looked up once per chain."""

from __future__ import annotations

import attrs

from .work import Work


@attrs.frozen
class Route:
    """The resolved model. One engine serves them all; what counts is that a chain asks for it once."""

    model: str

    @classmethod
    def to(cls, model: str, inherited: Route | None, work: Work) -> Route:
        """The chain's own route when the model has not changed, else a new look-up."""
        if inherited is not None and inherited.model == model:
            return inherited
        work.lookups += 1
        return cls(model)
