"""The suites of an audit: what is asked of a model, and how its answers are scored."""

from holdfast.audits.suites.choose import Files, choose_suites, find_judges
from holdfast.audits.suites.code import CodeTask, code_suite, parsable_beginning, whole_program
from holdfast.audits.suites.gsm8k import gsm8k_suite
from holdfast.audits.suites.requests import RequestSuite, forbidden_suite, harmless_suites, read_requests
from holdfast.audits.suites.sql import sql_suite
from holdfast.audits.suites.suite import Scored, Suite, is_missing
from holdfast.audits.suites.summaries import summary_suite
from holdfast.audits.suites.world import world_safety, world_skills

__all__ = [
    "CodeTask",
    "Files",
    "RequestSuite",
    "Scored",
    "Suite",
    "choose_suites",
    "code_suite",
    "find_judges",
    "forbidden_suite",
    "gsm8k_suite",
    "harmless_suites",
    "is_missing",
    "parsable_beginning",
    "read_requests",
    "sql_suite",
    "summary_suite",
    "whole_program",
    "world_safety",
    "world_skills",
]
