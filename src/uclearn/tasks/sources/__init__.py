"""Files to tensors: one module per data set, each with a `load` that says what it returns."""
