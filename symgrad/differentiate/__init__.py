"""From expressions to their derivatives: reverse and forward mode, overrides, second derivatives."""
