"""The parts of the page, each a function from a comparison (or all runs) to markup."""
