"""Runs the contract suite of the clients, and the quick starts of their pages, against a real service.

usage: run.py extract PAGE LANGUAGE FILE     write the first code block of a page
       run.py run PROGRAM CLIENTS            start the service PROGRAM and run clients

CLIENTS is a file: a list with the `name` of each client, the command `contract`, which runs its cases, its `page` and
the command of its `quick_start`. Clients without a page have no quick start.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

from harness import Proxy, Service, environment, fenced

HERE = Path(__file__).resolve().parent
# Seconds for all cases of a client.
CLIENT_MAX = 300
PASSED = re.compile(r"^case ([a-z-]+): passed$", re.MULTILINE)


@dataclass(frozen=True)
class Client:
    name: str
    contract: list[str]
    page: str = ""
    # Empty if the page has no program of its own.
    quick_start: list[str] = field(default_factory=list)


def main(arguments: list[str]) -> int:
    match arguments:
        case ["extract", page, language, file]:
            Path(file).write_text(fenced(Path(page).read_text("utf-8"), language)[0], "utf-8")
            return 0
        case ["run", program, clients]:
            return run(Path(program).resolve(), [Client(**one) for one in json.loads(Path(clients).read_text("utf-8"))])
    print(__doc__)
    return 2


def run(program: Path, clients: list[Client]) -> int:
    cases = [case["name"] for case in json.loads((HERE / "cases.json").read_text("utf-8"))["cases"]]
    with tempfile.TemporaryDirectory() as folder, Service(program, Path(folder)) as service, Proxy(service) as proxy:
        env = environment(service, proxy)
        with ThreadPoolExecutor(len(clients)) as pool:
            results = list(pool.map(lambda client: check(client, cases, env, service), clients))
        service.check()
    failures = [line for result in results for line in result]
    print("\n".join(failures))
    count = len(clients) * len(cases) + sum(bool(client.page) for client in clients)
    print(f"{count - len(failures)} passed, {len(failures)} failed")
    return 1 if failures else 0


def check(client: Client, cases: list[str], env: dict[str, str], service: Service) -> list[str]:
    """Failures of one client."""
    name = client.name
    begun = time.monotonic()
    status, output = call(client.contract, env)
    ran = PASSED.findall(output)
    failures = [f"{name}: case {case} did not pass" for case in cases if case not in ran]
    failures += [f"{name}: case {case} is not in cases.json" for case in ran if case not in cases]
    if status != 0 and not failures:
        failures.append(f"{name}: ended with {status}")
    failures += quick_start(client, env, service) if client.page else []
    if failures:
        print(f"--- {name}\n{output}")
    print(f"{name}: {len(ran)} cases in {time.monotonic() - begun:.1f} s")
    return failures


def quick_start(client: Client, env: dict[str, str], service: Service) -> list[str]:
    """Failure of the quick start of a client."""
    tokens = {
        "SHOP_TOKEN": service.token("shop", "campaigns:write pay"),
        "ANN_TOKEN": service.token(f"ann-{client.name}", "claim"),
    }
    _, said = call(client.quick_start, {**env, **tokens})
    expected = fenced(Path(client.page).read_text("utf-8"), "text")[0]
    return [] if said == expected else [f"{client.name}: the quick start printed {said!r} in place of {expected!r}"]


def call(line: list[str], env: dict[str, str]) -> tuple[int, str]:
    """Exit status and output of a command."""
    pipe = subprocess.PIPE
    done = subprocess.run(line, env=env, stdout=pipe, stderr=subprocess.STDOUT, timeout=CLIENT_MAX, check=False)
    return done.returncode, done.stdout.decode()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
