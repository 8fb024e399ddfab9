"""What a server offers and where its bounds are. Times are seconds, sizes are bytes."""

from __future__ import annotations

import attrs

SCRIPTED = "scripted"  # the model that is served whatever ``models`` says
# Offered unless fewer are asked for.
ALL_PROFILES = frozenset(
    {"core", "warm", "lanes", "steer", "http", "openresponses", "append", "codex", "reference"}
)


@attrs.frozen
class Settings:
    """The same for every connection of a server."""

    profiles: frozenset[str] = ALL_PROFILES
    append_for_all: bool = False
    models: tuple[str, ...] = ()  # empty: any name is served (RWS-SIM-030)
    lifetime: float = 3600.0  # RWS-LIM-001
    idle: float = 3600.0
    heartbeat: float = 240.0  # RWS-LIM-010
    grace: float = 10.0  # RWS-LIM-008
    max_in_flight: int = 16  # running responses of one connection (RWS-LAN-009)
    max_lanes: int = 32  # distinct names of one connection's lifetime (RWS-LAN-012)
    max_queued: int = 64  # creates of one connection that may wait (RWS-LIM-005)
    max_queued_bytes: int = 64 * 2**20  # of them (RWS-LIM-015), and of steers for one response
    max_steers: int = 16  # submissions that may wait for one response (RWS-STR-017)

    def offers(self, profile: str) -> bool:
        return profile in self.profiles

    def serves(self, model: str) -> bool:
        return not self.models or model in self.models or model == SCRIPTED

    @property
    def lifetime_in_words(self) -> str:
        """The limit as its event names it (RWS-LIM-004)."""
        if self.lifetime % 60 == 0:
            return f"{self.lifetime // 60:.0f} minutes"
        return f"{self.lifetime:.3f}".rstrip("0").rstrip(".") + " seconds"
