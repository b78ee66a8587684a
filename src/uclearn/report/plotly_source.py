"""Where the drawing library comes from: the `plotly` package brings it along."""

from uclearn.errors import UclearnError


class MissingPlotlyError(UclearnError, ImportError):
    """The extra that the report needs is not installed."""


def plotly_javascript() -> str:
    """The text of plotly.js, to be put into the page."""
    try:
        from plotly.offline import get_plotlyjs
    except ImportError as error:
        raise MissingPlotlyError(
            "The report needs the package plotly, which is not installed. Install it with: "
            "pip install 'uclearn[report]'"
        ) from error
    return str(get_plotlyjs())
