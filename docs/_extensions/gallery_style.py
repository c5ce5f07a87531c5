"""One look for all figures of the gallery."""

from __future__ import annotations

from pathlib import Path
from typing import Any

STYLE = Path(__file__).parents[1] / "_static" / "gallery.mplstyle"


def reset(gallery_conf: dict[str, Any], name: str) -> None:
    """Set matplotlib anew before each example."""
    import matplotlib
    from matplotlib import pyplot

    pyplot.rcdefaults()
    matplotlib.use("agg")
    pyplot.style.use(STYLE)
