"""The conformance suite made from the text of ``spec/``."""

from __future__ import annotations

__version__ = "0.1.0"
