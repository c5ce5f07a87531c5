"""An encoder that learns, and the frame libraries that it is tried with."""

from __future__ import annotations

import math

import pandas as pd
import polars as pl
import pytest

from treebandit.features.frame_encoder import FrameEncoder

NAN = math.nan
LIBRARIES = [pd.DataFrame, pl.DataFrame]
both = pytest.mark.parametrize("library", LIBRARIES)


class Table:
    """An encoder that takes up what it learns, as an agent does."""

    def __init__(self):
        self.encoder = FrameEncoder()

    def learn(self, rows):
        values, self.encoder = self.encoder.encode(rows)
        return values

    def score(self, rows):
        return self.encoder.encode(rows)[0]

    @property
    def columns(self):
        return self.encoder.columns

    @property
    def categories(self):
        return self.encoder.categories

    def state(self):
        return self.encoder.state()
