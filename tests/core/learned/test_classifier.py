"""Classes of runs, one at a time, are those of the model."""

from __future__ import annotations

from array import array

from hypothesis import given
from hypothesis import strategies as st

from autotune.core.learned import Classifier, Run
from autotune.core.learned.runs import PastRequest
from autotune.core.reuse import classify, pack
from autotune.testing.reuse import example_reuse_model, feature_rows, reuse_models


@given(st.data())
def test_classes_are_those_of_many_rows_at_once(data: st.DataObject) -> None:
    """Whatever the model and the row, also where a value equals a cut."""
    model = data.draw(reuse_models())
    rows = data.draw(feature_rows(model))
    classifier = Classifier(pack(model))
    assert [classifier.classify(row.tolist()) for row in rows] == classify(model, rows).tolist()


def test_a_run_keeps_its_class_by_the_model_before() -> None:
    """While another model is being prepared, both ask for the class of the same run, and neither computes it twice."""
    run = Run(PastRequest(1, 16, 0), 0, 0)
    run.features = array("d", [1.0] * 24)
    first, second, third = (Counting(pack(example_reuse_model())) for _ in range(3))
    for classifier in (first, second, first, second, third, second, third):
        classifier.group_of(run)
    assert [first.n, second.n, third.n] == [1, 1, 1]


class Counting(Classifier):
    """Counts how often it computes."""

    n = 0

    def classify(self, features: object) -> int:
        """The class, counted."""
        self.n += 1
        return super().classify(features)  # type: ignore[arg-type]
