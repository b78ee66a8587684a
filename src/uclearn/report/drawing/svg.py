"""A scene as SVG."""

from html import escape

from uclearn.report.drawing.scene import FONT, Color, Scene, Shape, Text


def svg(scene: Scene) -> str:
    """The text of the file."""
    size = f'width="{scene.width:g}pt" height="{scene.height:g}pt"'
    box = f'viewBox="0 0 {scene.width:g} {scene.height:g}"'
    head = f'<svg xmlns="http://www.w3.org/2000/svg" {size} {box} font-family="{FONT}">'
    back = f'<rect width="{scene.width:g}" height="{scene.height:g}" fill="#fff"/>'
    return "\n".join([head, back, *map(_element, scene.items), "</svg>", ""])


def _element(item: Shape | Text) -> str:
    if isinstance(item, Text):
        turn = f' transform="rotate(-90 {item.x:.2f} {item.y:.2f})"' if item.upwards else ""
        weight = ' font-weight="bold"' if item.bold else ""
        return (
            f'<text x="{item.x:.2f}" y="{item.y:.2f}" font-size="{item.size:g}" '
            f'text-anchor="{item.anchor}"{_paint("fill", item.color)}{weight}{turn}>'
            f"{escape(item.words)}</text>"
        )
    points = "L".join(f"{x:.2f} {y:.2f}" for x, y in item.points) + ("Z" if item.closed else "")
    dash = f' stroke-dasharray="{" ".join(f"{d:g}" for d in item.dash)}"' if item.dash else ""
    pen = f' stroke-width="{item.width:g}"{dash}' if item.stroke else ""
    paint = _paint("fill", item.fill) + (_paint("stroke", item.stroke) if item.stroke else "")
    return f'<path d="M{points}"{paint}{pen}/>'


def _paint(kind: str, color: Color | None) -> str:
    if color is None:
        return f' {kind}="none"'
    red, green, blue, cover = color
    opacity = f' {kind}-opacity="{cover:g}"' if cover < 1 else ""
    return f' {kind}="#{red:02x}{green:02x}{blue:02x}"{opacity}'
