"""The bars: by matplotlib where it is installed, else as a small SVG of its own."""

import importlib.util
from xml.sax.saxutils import escape

COLOURS = {"library": "#1f6fb2", "limit": "#bbbbbb", "peer": "#d98f2b"}


def label(row):
    return f"{row['peer']}: {row['way']}  [{row['device_short']}]"


def number(row):
    text = f"{row['bytes_per_second'] / 1e9:.2f} GB/s"
    return text if row["of_library"] is None or row["kind"] == "library" else f"{text}, {row['of_library']:.2f} of the library"


def by_matplotlib(groups, title, path):
    import matplotlib
    matplotlib.use("Agg")
    from matplotlib import pyplot
    heights = [len(rows) + 1.5 for _, rows in groups]
    figure, axes = pyplot.subplots(len(groups), 1, figsize=(13, 0.3 * sum(heights) + 0.6), squeeze=False,
                                   gridspec_kw={"height_ratios": heights})
    figure.suptitle(title, fontsize=11)
    for axis, (name, rows) in zip(axes[:, 0], groups):
        rates = [row["bytes_per_second"] / 1e9 for row in rows]
        axis.barh(range(len(rows)), rates, color=[COLOURS[row["kind"]] for row in rows], height=0.7)
        axis.set_yticks(range(len(rows)), [label(row) for row in rows], fontsize=8)
        axis.invert_yaxis()
        axis.set_xlim(0, 1.35 * max(rates))
        axis.set_title(name, fontsize=9, loc="left", fontweight="bold")
        for place, row in enumerate(rows):
            axis.text(rates[place], place, " " + number(row), va="center", fontsize=8)
    figure.tight_layout()
    figure.savefig(path, format="svg", metadata={"Title": title})
    pyplot.close(figure)


def by_hand(groups, title, path):
    left, full, row_height, head = 480, 420, 22, 50
    parts, y = [], head
    for name, rows in groups:
        most = max(row["bytes_per_second"] for row in rows)
        parts.append(f'<text class="group" x="20" y="{y + 18}">{escape(name)}</text>')
        y += 28
        for row in rows:
            width = full * row["bytes_per_second"] / most
            parts.append(f'<text class="label" x="{left - 8}" y="{y + 15}">{escape(label(row))}</text>')
            parts.append(f'<rect class="{row["kind"]}" x="{left}" y="{y + 3}" width="{width:.1f}" height="{row_height - 6}"/>')
            parts.append(f'<text x="{left + width + 8:.1f}" y="{y + 15}">{escape(number(row))}</text>')
            y += row_height
        y += 8
    width, height = left + full + 260, y + 12
    style = "text { font: 12px 'DejaVu Sans', Verdana, Arial, sans-serif; fill: #222222; } "
    style += ".label { text-anchor: end; font-size: 11px; } .group { font-weight: bold; } "
    style += " ".join(f".{kind} {{ fill: {colour}; }}" for kind, colour in COLOURS.items())
    with open(path, "w", encoding="utf-8") as file:
        file.write(f'<?xml version="1.0" encoding="UTF-8"?>\n<svg xmlns="http://www.w3.org/2000/svg" role="img" width="{width}" '
                   f'height="{height}" viewBox="0 0 {width} {height}">\n<title>{escape(title)}</title>\n'
                   f'<desc>Rates of the library (blue), its peers (orange) and limits (gray), by job.</desc>\n'
                   f'<style>{style}</style>\n<rect width="{width}" height="{height}" fill="#ffffff"/>\n'
                   f'<text class="group" x="20" y="28">{escape(title)}</text>\n')
        file.write("\n".join(parts) + "\n</svg>\n")


def draw(groups, title, path):
    """`groups` are pairs of a name and rows with figures. What drew it, in words."""
    if importlib.util.find_spec("matplotlib") is not None:
        try:
            by_matplotlib(groups, title, path)
            return "matplotlib"
        except Exception as error:  # an old or broken one is no reason to have no picture
            by_hand(groups, title, path)
            return f"own code, as matplotlib failed: {error}"
    by_hand(groups, title, path)
    return "own code"
