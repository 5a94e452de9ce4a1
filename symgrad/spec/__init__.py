"""Specs: YAML text to frozen values, with every mistake of a spec reported at once, at its place."""

from symgrad.spec.interval import Interval, parse_interval
from symgrad.spec.load import load_spec, load_specs, parse_spec
from symgrad.spec.model import (
    Dim,
    Formula,
    Hyperparameter,
    Module,
    Options,
    Output,
    Parameter,
    Sampling,
    Spec,
    Tensor,
    Value,
)

__all__ = [
    "Dim",
    "Formula",
    "Hyperparameter",
    "Interval",
    "Module",
    "Options",
    "Output",
    "Parameter",
    "Sampling",
    "Spec",
    "Tensor",
    "Value",
    "load_spec",
    "load_specs",
    "parse_interval",
    "parse_spec",
]
