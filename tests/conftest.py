"""What holds for all tests: none of them fails because the machine is busy with other things."""

from __future__ import annotations

from hypothesis import HealthCheck, settings

settings.register_profile(
    "any machine",
    parent=settings(),
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("any machine")
