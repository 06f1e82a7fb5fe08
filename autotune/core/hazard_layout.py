"""Where a tier under the learned rule keeps what its rule needs: indices of :class:`autotune.core.state.TierState`.

``counts``: 1 for a block that the nearer tier holds too, else 0.
"""

from __future__ import annotations

from autotune.core.state import SCRATCH

# ``params``
TICK_NS = 0
"""Length of a tick."""
COPY_FACTOR = 1
"""Factor on the key of a copy that the nearer tier holds too; 0: such copies leave first."""
GHOSTS = 2
"""Ghost entries: none, for the history knows the past of every block."""
ADMISSION = 3
"""1 marginal, 0 all."""
WRITE_NS = 4
"""Time in which the write budget allows one block; 0: there is none."""
WRITE_BURST_NS = 5
"""Time for which the budget may be saved up."""
SCALE_NS = 6
"""Near horizon of a rule whose key does not change while a block lies idle; 0: keys are those of a tick."""
APART = 7
"""While no rule is in force: 1 if copies of what the nearer tier holds too stand apart, and leave first."""
EDGES = 8
"""From here on the ages in ns that separate the bins."""

# ``floats``
GAINS = 8
"""From here on the best gain per second, by class and age bin."""

# ``ints``
TICK_BEGAN_NS, WRITTEN_UP_TO_NS, BUDGET_BEGAN_NS = SCRATCH + 3, SCRATCH + 4, SCRATCH + 5
