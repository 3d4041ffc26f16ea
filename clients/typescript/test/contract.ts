// The cases of clients/contract/cases.json with the client in TypeScript.

import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";
import { readFileSync } from "node:fs";
import {
  Client,
  LostConnectionError,
  NoAnswerError,
  ProblemError,
  SignatureError,
  verify,
} from "qiang";
import type { ClaimResult, ClientOptions, NewSale, Page, Phase, RefusedOutcome, Sale } from "qiang";

const { QIANG_URL: direct = "", QIANG_PROXY: proxy = "" } = process.env;
const { QIANG_NOWHERE: nowhere = "", QIANG_SIGNATURES: signatures = "" } = process.env;
const SELLER_SCOPES = "campaigns:write pay deposit send read:any admin";
const PRICE = { amount: 49_900, currency: "CNY" };
const LAMPS: NewSale = { title: "lamps", stock: 10, unit_price: PRICE, per_user_limit: 5 };

const fresh = (name: string): string => `${name}-${randomUUID().slice(0, 13)}`;

async function clientOf(user: string, scope: string, fault = "", options: ClientOptions = {}): Promise<Client> {
  const answer = await fetch(`${proxy}/_token?${new URLSearchParams({ user, scope })}`);
  return new Client(fault ? `${proxy}/${fault}` : direct, { ...options, token: await answer.text() });
}

const seller = (fault = ""): Promise<Client> => clientOf(fresh("seller"), SELLER_SCOPES, fault);
const buyer = (fault = "", options: ClientOptions = {}): Promise<Client> =>
  clientOf(fresh("buyer"), "claim", fault, options);
const saleOf = (shop: Client, more: Partial<NewSale> = {}): Promise<Sale> => shop.createSale({ ...LAMPS, ...more });

async function requestsWith(key: string): Promise<number[]> {
  const answer = await fetch(`${proxy}/_seen?${new URLSearchParams({ key })}`);
  return (await answer.json()) as number[];
}

function granted<T>(result: ClaimResult<T>): { grant: T; isReplay: boolean } {
  assert(result.result === "granted", JSON.stringify(result));
  return result;
}

function refusedOutcome<T>(result: ClaimResult<T>): RefusedOutcome {
  assert(result.result === "refused", JSON.stringify(result));
  return result.outcome;
}

type ErrorKind<E> = abstract new (...args: never[]) => E;

async function errorOf<E extends Error>(kind: ErrorKind<E>, call: Promise<unknown>): Promise<E> {
  try {
    await call;
  } catch (error) {
    assert(error instanceof kind, String(error));
    return error;
  }
  return assert.fail("there was no error");
}

async function waitUntil(holds: () => Promise<boolean>): Promise<void> {
  const until = Date.now() + 10_000;
  while (!(await holds())) {
    assert(Date.now() < until, "it took too long");
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
}

const grantedUnits = async (client: Client, sale: Sale): Promise<number> =>
  (await client.getCampaignState(sale.id)).granted;

const cases: Record<string, () => Promise<void>> = {
  async claim() {
    const sale = await saleOf(await seller());
    const ann = await buyer();
    const { grant: order, isReplay } = granted(await ann.order(sale.id, { quantity: 2 }));
    assert(!isReplay && order.id.startsWith(sale.id));
    assert.deepEqual([order.state, order.quantity, order.amount.amount], ["held", 2, 99_800]);
    assert.equal((await ann.getOrder(order.id)).id, order.id);
    assert.equal(await grantedUnits(ann, sale), 2);
  },

  async share() {
    const sender = fresh("sender");
    const shop = await clientOf(sender, SELLER_SCOPES);
    await shop.makeDeposit(sender, { reference: fresh("bank"), amount: 1000, currency: "CNY" });
    const total = { amount: 1000, currency: "CNY" };
    const packet = await shop.createRedPacket({ title: "恭喜", total, shares: 2, split: { rule: "equal" } });
    const ann = await buyer();
    const first = granted(await ann.claim(packet.id));
    const again = granted(await ann.claim(packet.id, {}));
    assert.equal(first.grant.amount.amount, 500);
    assert.equal(again.grant.id, first.grant.id);
    assert.deepEqual([first.isReplay, again.isReplay], [false, true]);
  },

  async replay() {
    const sale = await saleOf(await seller());
    const ann = (await buyer()).withOptions({ key: fresh("key") });
    const first = granted(await ann.order(sale.id));
    const second = granted(await ann.order(sale.id));
    assert.equal(first.grant.id, second.grant.id);
    assert.deepEqual([first.isReplay, second.isReplay], [false, true]);
    assert.equal(await grantedUnits(ann, sale), 1);
    const reused = await errorOf(ProblemError, ann.order(sale.id, { quantity: 2 }));
    assert.deepEqual([reused.type, reused.problem.status], ["/problems/key-reused", 422]);
  },

  async "sold-out"() {
    const sale = await saleOf(await seller(), { stock: 1, per_user_limit: 1 });
    const ann = await buyer();
    granted(await ann.order(sale.id));
    const late = await (await buyer()).order(sale.id);
    assert(late.result === "refused" && late.outcome === "sold_out", JSON.stringify(late));
    assert.deepEqual([late.problem.type, late.problem.status], ["/problems/sold-out", 409]);
    assert.equal(refusedOutcome(await ann.order(sale.id)), "limit_reached");
  },

  async throttled() {
    const sale = await saleOf(await seller());
    const key = fresh("key");
    const ann = (await buyer("throttle-first")).withOptions({ key });
    assert(!granted(await ann.order(sale.id)).isReplay);
    const times = await requestsWith(key);
    assert(times.length === 2 && (times[1] ?? 0) >= 1, String(times));
  },

  async "rate-limit"() {
    const sale = await saleOf(await seller(), { stock: 100, per_user_limit: 100 });
    const ann = await buyer();
    const orders = new Set<string>();
    for (let number = 0; number < 23; number += 1) {
      orders.add(granted(await ann.order(sale.id)).grant.id);
    }
    assert.equal(orders.size, 23);
  },

  async "lost-answer"() {
    const name = fresh("seller");
    const shop = await clientOf(name, SELLER_SCOPES);
    const lossy = await clientOf(name, SELLER_SCOPES, "drop-first");
    const reference = fresh("po");
    const sale = await saleOf(lossy, { reference });
    assert.deepEqual((await shop.listSales({ reference }).all()).map((one) => one.id), [sale.id]);
    const key = fresh("key");
    const ann = (await buyer("drop-first")).withOptions({ key });
    assert(granted(await ann.order(sale.id)).isReplay);
    assert.equal((await requestsWith(key)).length, 2);
    assert.equal(await grantedUnits(shop, sale), 1);
    await lossy.makeDeposit(name, { reference: fresh("bank"), amount: 700, currency: "CNY" });
    assert.equal((await shop.getAccount(name)).balances[0]?.available.amount, 700);
  },

  async "lost-request"() {
    const shop = await seller();
    const sale = await saleOf(shop);
    const key = fresh("key");
    const ann = (await buyer("lose-first")).withOptions({ key });
    assert(!granted(await ann.order(sale.id)).isReplay);
    assert.equal((await requestsWith(key)).length, 2);
    assert.equal(await grantedUnits(shop, sale), 1);
  },

  async "late-answer"() {
    const shop = await seller();
    const sale = await saleOf(shop);
    const ann = await buyer("late-first", { attemptMs: 500 });
    assert(granted(await ann.order(sale.id)).isReplay);
    assert.equal(await grantedUnits(shop, sale), 1);
  },

  async "gave-up"() {
    const shop = await seller();
    const sale = await saleOf(shop);
    const name = fresh("buyer");
    const deaf = await clientOf(name, "claim", "drop-all", { deadlineMs: 500 });
    const error = await errorOf(NoAnswerError, deaf.order(sale.id));
    assert(error.mayHaveHappened && error.attempts > 1 && error.cause instanceof LostConnectionError, String(error));
    const ann = (await clientOf(name, "claim")).withOptions({ key: error.key });
    assert(granted(await ann.order(sale.id)).isReplay);
    assert.equal(await grantedUnits(shop, sale), 1);
  },

  async "no-service"() {
    const client = new Client(nowhere, { deadlineMs: 300 });
    const call = client.makeDeposit("ann", { reference: "x", amount: 1, currency: "CNY" });
    const error = await errorOf(NoAnswerError, call);
    assert(!error.mayHaveHappened && error.problem === undefined, String(error));
  },

  async gateway() {
    const sale = await saleOf(await seller());
    const key = fresh("key");
    const ann = (await buyer("gateway-first")).withOptions({ key });
    assert(!granted(await ann.order(sale.id)).isReplay);
    assert.equal((await requestsWith(key)).length, 3);
    const hasty = await buyer("gateway-first", { deadlineMs: 500, backoffFirstMs: 1e9, backoffMs: 1e9 });
    const error = await errorOf(NoAnswerError, hasty.order(sale.id));
    assert(error.mayHaveHappened, String(error));
    assert.deepEqual([error.kind, error.problem?.status], ["about:blank", 502]);
  },

  async paging() {
    const shop = await seller();
    const sale = await saleOf(shop, { stock: 20, per_user_limit: 20 });
    const ann = await buyer();
    const first: string[] = [];
    for (let number = 0; number < 7; number += 1) {
      first.unshift(granted(await ann.order(sale.id)).grant.id);
    }
    const newestPage = (): Promise<Page<unknown>> => shop.listAllOrders({ campaign: sale.id, limit: 1 }).page();
    await waitUntil(async () => (await newestPage()).settled !== false);
    const newest = shop.listAllOrders({ campaign: sale.id, limit: 3 });
    const read = (await newest.page()).data;
    // It is newer than all pages that follow.
    granted(await ann.order(sale.id));
    read.push(...(await newest.all()));
    assert.deepEqual(read.map((order) => order.id), first);
    const pages: number[] = [];
    for await (const page of shop.listOrders(sale.id, { limit: 3 }).pages()) {
      pages.push(page.data.length);
    }
    assert(pages.length >= 3 && pages.reduce((sum, count) => sum + count, 0) === 8, String(pages));
  },

  async events() {
    const shop = await seller();
    const sale = await saleOf(shop);
    const hook = await shop.createWebhook({ url: "http://127.0.0.1:9/", campaigns: [sale.id] });
    const ann = await buyer();
    let pager = shop.listEvents();
    const read = async (order: string): Promise<void> => {
      const found: unknown[] = [];
      await waitUntil(async () => {
        const events = (await pager.all()).map((event) => event.data);
        found.push(...events.filter((data) => data["campaign"] === sale.id).map((data) => data["order"]));
        return found.length > 0;
      });
      assert.deepEqual(found, [order]);
    };
    await read(granted(await ann.order(sale.id)).grant.id);
    const later = granted(await ann.order(sale.id)).grant.id;
    // Another process continues from the kept cursor.
    assert(pager.cursor);
    pager = shop.listEvents({ after: pager.cursor });
    await read(later);
    await shop.deleteWebhook(hook.id);
  },

  async "webhook-signature"() {
    interface Vector {
      name: string;
      accepted: boolean;
      secrets: string[];
      headers: Record<string, string>;
      body: string;
    }
    const table = JSON.parse(readFileSync(signatures, "utf8")) as { now: number; cases: Vector[] };
    for (const { name, accepted, secrets, headers, body } of table.cases) {
      const checked = verify(secrets, headers, body, { nowS: table.now });
      if (accepted) {
        const event = await checked;
        assert.deepEqual([event.type, event.data.user], ["order.paid", "李雷"], name);
      } else {
        await assert.rejects(checked, SignatureError, name);
      }
    }
  },

  async payment() {
    const shop = await seller();
    const sale = await saleOf(shop);
    const user = fresh("buyer");
    const order = granted(await (await clientOf(user, "claim")).order(sale.id)).grant;
    const report = { order: order.id, reference: fresh("pay"), amount: PRICE, user, paid_at: new Date().toISOString() };
    const strange = { ...report, reference: fresh("pay"), user: fresh("other") };
    assert.equal((await errorOf(ProblemError, shop.reportPayment(strange))).type, "/problems/user-mismatch");
    const first = await shop.reportPayment(report);
    const again = await shop.reportPayment(report);
    assert.deepEqual([first.outcome, first.order.state, again.outcome], ["paid", "paid", "paid"]);
    const second = await shop.reportPayment({ ...report, reference: fresh("pay") });
    assert.equal(second.outcome, "refund_due");
    await waitUntil(async () => (await shop.getRefunds(order.id)).due.amount === PRICE.amount);
    const refund = { reference: fresh("refund"), amount: PRICE };
    assert.equal((await shop.refundOrder(order.id, refund)).reference, refund.reference);
    assert.equal((await shop.refundOrder(order.id, refund)).reference, refund.reference);
    await waitUntil(async () => (await shop.getRefunds(order.id)).refunded.amount === PRICE.amount);
    const listed = await shop.listPayments({ reference: report.reference }).all();
    assert.deepEqual(listed.map((one) => one.outcome), ["paid"]);
  },

  async cancel() {
    const shop = await seller();
    const sale = await saleOf(shop);
    const name = fresh("buyer");
    const ann = await clientOf(name, "claim");
    const lossy = await clientOf(name, "claim", "drop-first");
    const order = granted(await ann.order(sale.id, { quantity: 3 })).grant;
    const part = await lossy.cancelOrder(order.id, { quantity: 1 });
    assert.deepEqual([part.quantity, part.cancelled_quantity, part.state], [2, 1, "held"]);
    assert.equal((await lossy.cancelOrder(order.id)).state, "cancelled");
    assert.equal((await ann.cancelOrder(order.id)).state, "cancelled");
    assert.equal((await shop.getCampaignState(sale.id)).remaining, 10);
    const paid = granted(await ann.order(sale.id)).grant;
    await shop.payOrder(paid.id, { reference: fresh("pay"), amount: PRICE });
    const conflict = await errorOf(ProblemError, ann.cancelOrder(paid.id));
    assert.deepEqual([conflict.type, conflict.problem.status], ["/problems/order-conflict", 409]);
  },

  async errors() {
    const shop = await seller();
    const sale = await saleOf(shop);
    const ann = await buyer();
    const wrong = await errorOf(ProblemError, ann.order(sale.id, { quantity: 0 }));
    assert.deepEqual([wrong.type, wrong.problem.status], ["/problems/invalid", 422]);
    assert.deepEqual(wrong.problem.errors?.map((one) => one.pointer), ["#/quantity"]);
    assert(wrong.problem.request_id);
    const unknownId = "01932c07-8e5a-7a3c-9f1e-2b7c5d4e6f80";
    const unknown = await errorOf(ProblemError, ann.getSale(unknownId));
    assert.deepEqual([unknown.kind, unknown.problem.status], ["unknown-campaign", 404]);
    assert.equal(refusedOutcome(await ann.order(unknownId)), "unknown_campaign");
    const stranger = await errorOf(ProblemError, shop.withOptions({ token: "wrong" }).getAccount("ann"));
    assert.deepEqual([stranger.type, stranger.problem.status], ["/problems/unauthenticated", 401]);
    const forbidden = await errorOf(ProblemError, saleOf(ann));
    assert.deepEqual([forbidden.type, forbidden.problem.status], ["/problems/forbidden", 403]);
    assert.match(forbidden.problem.scope ?? "", /campaigns:write/);
  },

  async "new-words"() {
    const sale = await saleOf(await seller(), { stock: 1, per_user_limit: 1 });
    const later = await buyer("new-words");
    const known: Phase[] = ["live", "scheduled"];
    const { phase } = await later.getCampaignState(sale.id);
    assert(phase === "sparkling" && !known.includes(phase));
    granted(await (await buyer()).order(sale.id));
    const late = await later.order(sale.id);
    assert(late.result === "refused", JSON.stringify(late));
    assert.deepEqual([late.outcome, late.problem.type], ["sold_over", "/problems/sold-over"]);
  },

  async ticket() {
    const shop = await seller();
    const sale = await saleOf(shop, { requirements: ["ticket"] });
    granted(await (await buyer()).order(sale.id));
    const ann = await buyer();
    granted(await ann.order(sale.id, undefined, await ann.getSaleTicket(sale.id)));
    assert.equal(await grantedUnits(shop, sale), 2);
  },

  async queue() {
    const shop = await seller();
    const sale = await saleOf(shop, { waiting_room: true });
    await shop.pauseCampaign(sale.id);
    const ann = await buyer();
    const waiting = await ann.order(sale.id);
    assert(waiting.result === "waiting" && waiting.place.state === "waiting", JSON.stringify(waiting));
    assert.equal((await ann.waitForPlace(sale.id, 100)).result, "waiting");
    await shop.resumeCampaign(sale.id);
    const { grant } = granted(await ann.waitForPlace(sale.id, 20_000));
    assert("state" in grant && grant.state === "held");
  },

  async change() {
    const shop = await seller();
    const sale = await saleOf(shop, { description: "bright", product_id: "lamp-1" });
    const changed = await shop.changeSale(sale.id, { title: "lights", description: null });
    assert.deepEqual([changed.title, changed.description ?? null, changed.product_id], ["lights", null, "lamp-1"]);
    const metadata = { channel: "app", shelf: "4" };
    await shop.changeCampaignMetadata(sale.id, { reference: "PO-1", metadata });
    const left = await shop.changeCampaignMetadata(sale.id, { metadata: { shelf: null } });
    assert.deepEqual([left.reference, left.metadata], ["PO-1", { channel: "app" }]);
  },
};

for (const [name, run] of Object.entries(cases)) {
  try {
    await run();
    console.log(`case ${name}: passed`);
  } catch (error) {
    console.log(`case ${name}: FAILED\n${error instanceof Error ? error.stack : String(error)}`);
    process.exitCode = 1;
  }
}
