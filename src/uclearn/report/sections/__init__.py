"""The parts of the page, each a function from a study (or all runs) to markup."""
