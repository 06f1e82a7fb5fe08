"""Where a tier under the learned rule keeps what its rule needs: indices of :class:`autotune.core.state.TierState`.

``counts``: 1 for a block that the nearer tier holds too, else 0.
"""

from __future__ import annotations

from autotune.core.state import SCRATCH

# ``params``
ACTIVE = 0
"""1 while the rule is in force; 0: LRU."""
BY_DEPTH = 1
"""1 if, out of force, blocks of one age leave deepest first, whenever they came down."""
GHOSTS = 2
"""Ghost entries: none, for the history knows the past of every block."""
ADMISSION = 3
"""1 marginal, 0 all."""
TICK_NS = 4
"""Length of a tick."""
COPY_FACTOR = 5
"""Factor on the key of a copy that the nearer tier holds too; out of force below 1 = such copies leave first."""
WRITE_NS = 6
"""Time in which the write budget allows one block; 0: there is none."""
WRITE_BURST_NS = 7
"""Time for which the budget may be saved up."""
SCALE_NS = 8
"""Near horizon of a rule whose key does not change while a block lies idle; 0: keys are those of a tick."""
EDGES = 9
"""From here on the ages in ns that separate the bins."""

# ``floats``
GAINS = 8
"""From here on the best gain per second, by class and age bin."""

# ``ints``
TICK_BEGAN_NS, WRITTEN_UP_TO_NS, BUDGET_BEGAN_NS = SCRATCH + 3, SCRATCH + 4, SCRATCH + 5
