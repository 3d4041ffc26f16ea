"""Runs the shop for a rush of buyers, through a proxy that loses requests and answers, and reconciles all books.

usage: test.py PROGRAM     PROGRAM is `qiang`
"""

from __future__ import annotations

import http.client
import subprocess
import sys
import tempfile
import time
import urllib.parse
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import catalogue
import qiang
import reconcile
import window
from buyers import Bought, shop_for
from harness import Proxy, Service, free_port
from provider import Provider
from server import Server
from shop import SELLER, Shop

HERE = Path(__file__).resolve().parent
PROVIDER_SECRET = b"a secret of the provider double"
SCOPES = "campaigns:write pay read:any admin"
BUYERS = 40
AT_ONCE = 8
# Seconds for what follows without a request: settlement, webhooks, ends of holds.
PATIENCE = 30.0


def main(program: Path) -> int:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        with Service(program, folder) as service, Proxy(service) as proxy:
            status = run(service, proxy, folder)
            service.check()
            return status


def run(service: Service, proxy: Proxy, folder: Path) -> int:
    begun = time.monotonic()
    products = catalogue.read(HERE / "products.csv")
    client = qiang.Client(f"{proxy.url}/lossy", service.token(SELLER, SCOPES), deadline=60, backoff_max=0.5)
    shop = Shop(client, PROVIDER_SECRET)
    with Server(shop) as server:
        shop.subscribe(f"{server.url}/webhooks")
        shop.open_sales(products)
        restarted = Shop(client, PROVIDER_SECRET)
        restarted.open_sales(products)
        first, again = (sorted(one.id for one in it.books.sales.values()) for it in (shop, restarted))
        assert first == again and len(set(first)) == len(products) == 50, "a restart opened other sales"
        provider = Provider(PROVIDER_SECRET, f"{server.url}/notices")

        def buyer(number: int) -> Bought:
            user = f"李雷-{number}"
            own = client.with_options(token=service.token(user, "claim"))
            return shop_for(own, user, first, provider, number)

        with ThreadPoolExecutor(AT_ONCE) as pool:
            bought = list(pool.map(buyer, range(BUYERS)))
        provider.close()
        for one in bought:
            for order in one.returned:
                shop.return_order(order)
        granted = {number: order for one in bought for number, order in one.orders.items()}
        short = {shop.books.sales[product.sku].id for product in products if product.hold_seconds < 60}
        held = qiang.OrderState.HELD
        wait_until(lambda: not any(order.campaign in short for order in client.list_all_orders(state=held)))
        wait_until(lambda: settle_refunds(shop, provider))
        # Webhooks follow settlement.
        wait_until(lambda: sum(1 for _ in client.list_events(limit=1000)) == len(shop.books.events))
        lists = reconcile.read(shop)
        found = reconcile.differences(lists, shop, provider, granted)
        print_books(shop, provider, lists, proxy)
        refused = sum((one.refused for one in bought), Counter[str]())
        print(f"refused: {sum(refused.values())} {dict(refused)}")
        check_window(service, products, shop, folder)
    print("\n".join(found) or f"all books agree after {time.monotonic() - begun:.1f} s")
    assert len(granted) == len({order.id for order in granted.values()}) and granted, "an order has two buyers"
    assert proxy.dropped > 100, f"only {proxy.dropped} requests and answers were lost"
    return 1 if found else 0


def settle_refunds(shop: Shop, provider: Provider) -> bool:
    """Pays refunds until none is due."""
    shop.pay_refunds(provider)
    newest = shop.client.list_all_orders(limit=1).page()
    return newest.settled is not False and not list(shop.client.list_owed_orders())


def print_books(shop: Shop, provider: Provider, lists: reconcile.Lists, proxy: Proxy) -> None:
    states = Counter(str(order.state) for order in lists.orders.values())
    types = Counter(str(event.type) for event in shop.books.events.values())
    print(f"lost by the proxy: {proxy.dropped} requests and answers")
    print(f"orders: {len(lists.orders)} {dict(sorted(states.items()))}")
    print(f"payments: {len(provider.charges)} charged, {len(lists.payments)} listed")
    print(f"refunds: {len(provider.repayments)} paid, {len(lists.refunds)} listed, {lists.owed} due")
    print(f"events: {len(shop.books.events)} received, {len(lists.events)} listed {dict(sorted(types.items()))}")
    print(f"repeated: {shop.books.repeated_events} events, {shop.books.repeated_notices} notices")


def check_window(service: Service, products: list[catalogue.Product], shop: Shop, folder: Path) -> None:
    """Serves the window with deploy/nginx.conf, and checks what proxies and CDNs may keep."""
    root = folder / "window"
    window.write(products, {sku: sale.id for sku, sale in shop.books.sales.items()}, root)
    port = free_port()
    values = {
        "pid": str(folder / "nginx.pid"),
        "proxy_cache_path": str(folder / "cache"),
        "client_body_temp_path": str(folder / "body"),
        "proxy_temp_path": str(folder / "proxy"),
        "server": urllib.parse.urlsplit(service.url).netloc,
        "listen": f"127.0.0.1:{port}",
        "root": str(root),
    }
    lines = []
    for line in (HERE / "../../deploy/nginx.conf").read_text("utf-8").splitlines():
        if line.endswith("# site"):
            directive = line.split()[0]
            # Only the line of the cache continues on the next one.
            line = f"{directive} {values[directive]}" + ("" if directive == "proxy_cache_path" else ";")
        lines.append(line)
    configuration = folder / "nginx.conf"
    configuration.write_text("user root;\n" + "\n".join(lines) + "\n", "utf-8")
    nginx = subprocess.Popen(["nginx", "-c", str(configuration), "-g", "daemon off;"], stderr=subprocess.DEVNULL)
    try:
        wait_until(lambda: answers(port))
        page = get(port, "/")
        assets = [part.split('"')[0] for part in page[2].split('"/assets/')[1:]]
        assert page[0] == 200 and page[1]["cache-control"] == "public, max-age=60" and len(assets) == 2, page[:2]
        for asset in assets:
            status, headers, _ = get(port, f"/assets/{asset}")
            assert status == 200 and "immutable" in headers["cache-control"], (asset, headers)
        sale = next(iter(shop.books.sales.values())).id
        status, headers, _ = get(port, f"/v1/campaigns/{sale}/state")
        assert status == 200 and "x-cache" in headers, headers
        assert page[2].count(f'href="/s/{sale}"') == 1 and get(port, f"/s/{sale}")[0] == 200, sale
    finally:
        nginx.terminate()
        nginx.wait()
    print(f"window: {len(products)} products, {len(assets)} assets that never change")


def get(port: int, path: str) -> tuple[int, dict[str, str], str]:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=5)
    try:
        connection.request("GET", path)
        answer = connection.getresponse()
        headers = {name.lower(): value for name, value in answer.getheaders()}
        return answer.status, headers, answer.read().decode()
    finally:
        connection.close()


def answers(port: int) -> bool:
    try:
        return get(port, "/")[0] == 200
    except OSError:
        return False


def wait_until(holds: Callable[[], bool]) -> None:
    until = time.monotonic() + PATIENCE
    while not holds():
        assert time.monotonic() < until, "it took too long"
        time.sleep(0.1)


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    sys.exit(main(Path(sys.argv[1]).resolve()))
