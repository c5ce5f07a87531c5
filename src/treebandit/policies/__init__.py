"""Policies: how an estimate becomes a choice, and with which probability."""
