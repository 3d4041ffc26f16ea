"""Products of the shop."""

from __future__ import annotations

import csv
from dataclasses import dataclass
from pathlib import Path

CURRENCY = "CNY"


@dataclass(frozen=True)
class Product:
    sku: str
    title: str
    price_fen: int
    stock: int
    per_user_limit: int
    # Seconds for which an unpaid order keeps its units.
    hold_seconds: int
    description: str


def read(path: Path) -> list[Product]:
    """Products of a CSV file with a line of headings."""
    with path.open(encoding="utf-8", newline="") as file:
        return [
            Product(
                sku=row["sku"],
                title=row["title"],
                price_fen=int(row["price_fen"]),
                stock=int(row["stock"]),
                per_user_limit=int(row["per_user_limit"]),
                hold_seconds=int(row["hold_seconds"]),
                description=row["description"],
            )
            for row in csv.DictReader(file)
        ]
