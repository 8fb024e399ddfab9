"""A small, readable server that speaks the Responses API over WebSocket."""

from __future__ import annotations

__version__ = "0.1.0"
