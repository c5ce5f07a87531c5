"""What all tests share."""

from hypothesis import HealthCheck, settings

# Machines are noisy: no test fails on a time.
settings.register_profile("treebandit", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("treebandit")
