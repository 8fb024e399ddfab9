"""How hypothesis searches: the same in each run; with ``HYPOTHESIS_PROFILE=search`` longer and at random."""

from __future__ import annotations

import os

from hypothesis import HealthCheck, settings

slow_machines = {"deadline": None, "suppress_health_check": [HealthCheck.too_slow]}
settings.register_profile("steady", derandomize=True, **slow_machines)
settings.register_profile("search", max_examples=5_000, **slow_machines)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "steady"))
