"""The decision service: decide and reward over HTTP, a durable log, a learner that is a fold over it."""
