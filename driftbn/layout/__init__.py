"""Where the nodes and edges of a drawing go: layers from top to bottom, few crossings.

The steps are those of Sugiyama, Tagawa and Toda (1981): layers by longest path, order within the
layers by barycentres, then coordinates. Everything is decided by names and sizes, so the same graph
always gives the same picture.
"""

from driftbn.layout.arranging import arrange
from driftbn.layout.sizes import Layout, Point, Spacing

__all__ = ["Layout", "Point", "Spacing", "arrange"]
