"""The view of a verdict (`verdict_view` of the JSON) as HTML for notebooks, in the terminal's order."""
from html import escape

HUES = ((0.2, "#d55e00"), (0.1, "#e69f00"), (0, "#56b4e9"))    # by the share of the step, as on the page
GRID = "display:grid;grid-template-columns:max-content 1fr;gap:2px 14px;margin:6px 0"


def _line(label, *texts):
    body = "<br>".join(map(escape, texts))
    return f"<div>{label} {body}</div>" if body else ""


def _bar(share):
    width = 100 * max(0, min(1, share))
    hue = next(hue for least, hue in HUES if max(0, share) >= least)
    return (f'<div style="width:100px;height:10px;background:#8884"><div style="width:{width:.4g}%;height:100%;'
            f'background:{hue}"></div></div>')


def _block(block, among_gains):
    name = f"<b>{escape(block['name'])}</b> ({escape(block['cause'])})"
    name += ", cost" if among_gains and not block["gains"] else ""
    name += f", {escape(block['suffix'])}" if block["suffix"] else ""
    mark = f"({block['mark']})" if block["mark"] else ""
    measured = " ".join(filter(None, (block["measured"], mark)))
    cell = '<td style="text-align:left;vertical-align:top">'
    heads = f"<tr><th>share of step</th><th>{escape(block['head'])}</th><th></th></tr>" if block["head"] else ""
    return (f"{heads}<tr>{cell}{_bar(block['share'])}{100 * block['share']:.0f}%</td>{cell}<b>{escape(block['figure'])} ms</b></td>"
            f"{cell}{name}{_line('', measured)}{_line('worst', block['worst'])}{_line('fix', *block['fix'])}</td></tr>")


def html_of(view):
    blocks = view["blocks"]
    among_gains = bool(blocks) and blocks[0]["gains"]
    rows = "".join(f"<span>{escape(row['name'])}</span><span>{escape(row['text'])}</span>" for row in view["rows"])
    table = f"<table>{''.join(_block(block, among_gains) for block in blocks)}</table>" if blocks else ""
    return f"<b>Verdict: {escape(view['headline'])}</b><div style=\"{GRID}\">{rows}</div>{table}{_line('', view['minor'])}"
