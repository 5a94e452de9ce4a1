"""One self-contained page about an operation: formula, derivation, errors, save plan and proof."""

from symgrad.report.page import html

__all__ = ["html"]
