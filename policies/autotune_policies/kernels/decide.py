"""The functions of ``autotune.core.decide``, compiled; nothing is defined here, so nothing can differ."""

from __future__ import annotations

from collections.abc import Callable
from types import FunctionType
from typing import Any

from autotune.core.decide import arithmetic as _arithmetic
from autotune.core.decide import features as _features
from autotune.core.decide import fixed as _fixed
from autotune.core.decide import hazard as _hazard
from autotune.core.decide import keys as _keys
from autotune.core.decide import rank as _rank
from autotune.core.decide import reuse as _reuse
from autotune.core.decide import value as _value
from autotune_policies.kernels.jit import compiled

# The callees must be compiled before their callers, and be what the callers' globals name: each module's plain
# functions call each other by name, so the compiled twins are built with those names bound to compiled functions.


def _compiled(function: Callable[..., Any], **bound: Any) -> Any:
    twin = FunctionType(function.__code__, {**function.__globals__, **bound}, function.__name__)
    twin.__qualname__ = function.__qualname__
    return compiled(twin)


log2 = compiled(_arithmetic.log2_exactly_rounded_ops)
exp2 = _compiled(_arithmetic.exp2_exactly_rounded_ops, exp_series=compiled(_arithmetic.exp_series))
round_half_up = compiled(_rank.round_half_up)
decayed_frequency = _compiled(_rank.decayed_frequency, exp2_exactly_rounded_ops=exp2)
frequency_term_ns = _compiled(_rank.frequency_term_ns, log2_exactly_rounded_ops=log2, round_half_up=round_half_up)
value_term_ns = _compiled(_rank.value_term_ns, log2_exactly_rounded_ops=log2, round_half_up=round_half_up)
prefill_s = compiled(_value.prefill_s)
transfer_s = compiled(_value.transfer_s)
load_pays = _compiled(_value.load_pays, prefill_s=prefill_s, transfer_s=transfer_s)
gdsf_key = _compiled(_keys.gdsf_key, round_half_up=round_half_up)
next_use_key = compiled(_keys.next_use_key)
seconds_density_key = _compiled(_keys.seconds_density_key, round_half_up=round_half_up)
seconds_of = compiled(_features.seconds_of)
recent_uses = _compiled(_features.recent_uses, exp2_exactly_rounded_ops=exp2)
chain_average_s = compiled(_features.chain_average_s)
count_below = compiled(_reuse.count_below)
fill_bins = _compiled(_reuse.fill_bins, count_below=count_below)
score = compiled(_reuse.score)
class_of = compiled(_reuse.class_of)
age_bin = compiled(_hazard.age_bin)
write_reserve_ns = compiled(_hazard.write_reserve_ns)
write_price = _compiled(_hazard.write_price, exp2_exactly_rounded_ops=exp2)
hazard_key = _compiled(_hazard.hazard_key, round_half_up=round_half_up)
_bounded = _compiled(_fixed._bounded, round_half_up=round_half_up)
reuse_odds = _compiled(_fixed.reuse_odds, log2_exactly_rounded_ops=log2, round_half_up=round_half_up)
odds_shift_ns = _compiled(_fixed.odds_shift_ns, _bounded=_bounded)
factor_shift_ns = _compiled(_fixed.factor_shift_ns, log2_exactly_rounded_ops=log2, _bounded=_bounded)
value_shift_ns = _compiled(_fixed.value_shift_ns, factor_shift_ns=factor_shift_ns)
