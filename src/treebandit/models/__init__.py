"""Reward models: what a row will pay, and how sure that is."""
