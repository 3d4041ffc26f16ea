"""The shop window: static pages for nginx or a CDN. Numbers come from the service, which proxies may keep for a second.

usage: window.py CATALOGUE SALES FOLDER     SALES is a JSON object with the sale's id of each product
"""

from __future__ import annotations

import hashlib
import html
import json
import sys
from pathlib import Path

from catalogue import Product, read

SOURCES = Path(__file__).resolve().parent / "window"


def write(products: list[Product], sales: dict[str, str], folder: Path) -> None:
    """Writes `index.html` and its assets. Names of assets have a hash of their content, so they never change."""
    (folder / "assets").mkdir(parents=True, exist_ok=True)
    page = (SOURCES / "index.html").read_text("utf-8")
    for source in (SOURCES / "window.css", SOURCES / "window.js"):
        content = source.read_bytes()
        name = f"{source.stem}.{hashlib.sha256(content).hexdigest()[:12]}{source.suffix}"
        (folder / "assets" / name).write_bytes(content)
        page = page.replace(f"@{source.name}", f"/assets/{name}")
    rows = "\n".join(card(product, sales[product.sku]) for product in products)
    (folder / "index.html").write_text(page.replace("<!-- products -->", rows), "utf-8")


def card(product: Product, sale: str) -> str:
    title, about = html.escape(product.title), html.escape(product.description)
    price = f"¥{product.price_fen / 100:,.2f}"
    return (
        f'<li data-sale="{html.escape(sale)}"><a href="/s/{html.escape(sale)}">{title}</a> <b>{price}</b>'
        f"<p>{about}</p><output></output></li>"
    )


if __name__ == "__main__":
    if len(sys.argv) != 4:
        sys.exit(__doc__)
    catalogue, ids, target = (Path(argument) for argument in sys.argv[1:])
    write(read(catalogue), json.loads(ids.read_text("utf-8")), target)
