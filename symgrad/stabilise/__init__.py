"""From a formula to an accurate form of it: rules, alternatives, and what is measured to choose among them."""
