"""The scripted model: what it says, and when. Its facade is :class:`ScriptedModel` (spec annex A0)."""

from __future__ import annotations

from collections.abc import Sequence

import attrs

from responses_ref.model import script, scripted, streamer
from responses_ref.model.script import Progress
from responses_ref.model.streamer import Plan, Profile, TimeInfo
from responses_ref.model.tokens import Generator
from responses_ref.protocol.items import Item
from responses_ref.protocol.resource import Create


@attrs.frozen
class ScriptedModel:
    """A model that says what the request's script asks for, at a profile's speed.

    The same seed, turn number and request give the same plan (RWS-SIM-051).
    """

    profile: Profile
    agent_turns: int = 1
    seed: int = 0

    def advance(self, progress: Progress | None, items: Sequence[Item]) -> Progress:
        """Extend what is known of a context (None: an empty one) by its next items, input or output."""
        return script.advance(progress or Progress(), items)

    def plan(
        self, progress: Progress, create: Create, new_tokens: int, cached_tokens: int, number: int
    ) -> Plan:
        """Plan the response of the turn ``number``; raises ``Refused`` when its script rejects it."""
        random = Generator(Generator(self.seed).draw() + number)
        elements = scripted.say(progress, create, random.draw(), self.agent_turns)
        return streamer.plan(elements, self.profile, new_tokens, cached_tokens, random.draw())

    def time_info(self, plan: Plan, new_tokens: int, cached_tokens: int) -> TimeInfo:
        return streamer.time_info(plan, self.profile, new_tokens, cached_tokens)
