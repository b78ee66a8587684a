"""The page's charts as files, drawn without a browser: `scene` (shapes and text), `axes` and `plot`
(from a chart's data to shapes), `figure` (panels, titles, legend), `svg` and `pdf` (to bytes)."""
