"""Every error uclearn raises on purpose. Each says which argument, what was expected, what was
found and what to do about it."""


class UclearnError(Exception):
    """Base of all of them: `except UclearnError` catches whatever this library refuses."""


class SettingError(UclearnError, ValueError):
    """A setting has a value that makes no sense."""


class UnsupportedLayerError(UclearnError, TypeError):
    """The network holds a layer, or does an operation, that cannot be followed."""


class TaskError(UclearnError, RuntimeError):
    """A method, a task or a model was used out of order, or not as it was built."""


class DataError(UclearnError, ValueError):
    """Data on disk or in memory are not what they should be."""


class CheckpointError(UclearnError, RuntimeError):
    """A saved state is damaged, incomplete or of another kind."""


class SimulatorError(UclearnError, RuntimeError):
    """A simulated environment is missing, unsuitable, or failed while it was stepped."""
