"""What a program could reach, read from its syntax tree without running it: see docs/sandbox.md."""

from holdfast.judging.policy.capabilities import Finding, find_capabilities
from holdfast.judging.policy.judges import LEGACY_PATTERNS, CodePolicy, LegacyPatterns, code_of

__all__ = ["LEGACY_PATTERNS", "CodePolicy", "Finding", "LegacyPatterns", "code_of", "find_capabilities"]
