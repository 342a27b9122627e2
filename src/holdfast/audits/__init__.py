"""The audit of one model: suites, bars, comparison with an earlier audit."""

from holdfast.audits.bars import Bars
from holdfast.audits.card import write_card
from holdfast.audits.change import Changes
from holdfast.audits.model_audit import Plan, audit_model
from holdfast.audits.public import Audit, audit
from holdfast.audits.suites.world import held_out

__all__ = ["Audit", "Bars", "Changes", "Plan", "audit", "audit_model", "held_out", "write_card"]
