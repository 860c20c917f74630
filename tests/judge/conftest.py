"""Properties are tried without a deadline: on a busy machine a timing would decide the test."""

from hypothesis import settings

settings.register_profile("no-deadline", deadline=None)
settings.load_profile("no-deadline")
