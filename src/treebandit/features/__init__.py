"""What a person gives, checked and turned into float32 rows: inputs, frames, encodings, scales, arms."""

from treebandit.registry import exports

__all__, __getattr__, __dir__ = exports(__name__)
