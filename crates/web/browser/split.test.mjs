// @ts-check
// The split that the browser draws again is the service's.

import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { createHash, randomBytes } from "node:crypto";
import { test } from "node:test";
import { commitment, knows, madeOf, serverSeedHash, sha256, shares, unhex } from "./assets/split.js";
import { PROGRAM } from "./stage.mjs";

const SEED = Uint8Array.from({ length: 32 }, (_, i) => i);
const PACKET = { id: "01932c07-8e5a-7a3c-9f1e-2b7c5d4e6f80", currency: "CNY" };
const LARGEST = (1n << 63n) - 1n;

test("it has the values of version 1", () => {
  /**
   * @param {number | bigint} total @param {number} count @param {string} rule @param {string} promised
   * @param {(number | bigint)[]} amounts
   */
  const check = (total, count, rule, promised, amounts, min = 0n, max = 0n) => {
    const split = { total: BigInt(total), count: BigInt(count), rule, min, max };
    assert.deepEqual(shares(SEED, split), amounts.map(BigInt));
    if (promised) assert.equal(commitment(SEED, split, PACKET), promised);
  };
  check(10_000, 10, "normal", "85e043d5ad5b9c3b2bc01fd2c5da4a71b4a2ad0035f1d3bad8f989f652728557",
    [863, 945, 985, 1104, 843, 1150, 821, 1177, 882, 1230], 500n, 2_000n);
  check(LARGEST, 4, "normal", "d81149aa1ac551f5e2c40918c9521f2d79dbd772204afa28b474c82fbe0156bc",
    [2477540025212212103n, 2255049828811953620n, 2672329671832201225n, 1818452510998408859n], 1n, LARGEST);
  check(109, 10, "normal", "dcbd82faecb064225a12863a617c81ded088e9290a10308ea93211289533858a",
    [10, 11, 11, 11, 11, 11, 11, 11, 11, 11], 1n, 11n);
  check(10_000, 10, "double_average", "bd2105f0fd11ced4db6e4fbcbb415c2626057a6279e86ad526d223e02bdcdbf8",
    [1368, 2388, 829, 105, 826, 584, 395, 1089, 1191, 1225], 1n);
  check(LARGEST, 4, "double_average", "4e6690c9df93f64c09cffe62988c0a5d6da8baba518894d10c2ec4b3faecf869",
    [1719823315232140306n, 3522172421469969448n, 2661057250684127330n, 1320319049468538723n], 1n);
  check(10_003, 10, "equal", "1a3f4f182529bf5bcfa6d5125ebc8c5551593a3288ee189b2d09b8eeeab5dcad",
    [1000, 1000, 1000, 1001, 1001, 1000, 1000, 1000, 1001, 1000]);
});

test("it has the values of a packet's commitment", () => {
  const { id } = PACKET;
  const serverSeed = Buffer.from(SEED).toString("hex");
  const clientSeed = Buffer.from(SEED.map((byte) => 0xff - byte)).toString("hex");
  assert.equal(serverSeedHash(id, serverSeed), "b50ad7a0c71f1b8068b6c633cedf514b4e4d9674f6e6d952191465883e6ac164");
  const seed = madeOf(serverSeed, clientSeed);
  assert.equal(seed, "ac952f3e1412836d4b6259d3f7eb1547371ea5ebf8669f33b3c03bdf8122a6ff");
  const split = { total: 10_000n, count: 10n, rule: "normal", min: 500n, max: 2_000n };
  const committed = commitment(unhex(seed), split, PACKET);
  assert.equal(committed, "864e69af4743001275501a7ee0abdcfe6d59b678052f6186f35965484b2034ab");
});

/** The rules of the program, by its OpenAPI document. @returns {string[]} */
function rulesOfProgram() {
  const document = JSON.parse(execFileSync(PROGRAM, ["openapi"], { encoding: "utf8", maxBuffer: 1 << 26 }));
  return document.components.schemas.SplitRuleName.enum;
}

test("a rule that it does not know is no false verdict", () => {
  assert.equal(knows("by_height"), false);
  const split = { total: 1n, count: 1n, rule: "by_height", min: 1n, max: 1n };
  assert.throws(() => commitment(SEED, split, PACKET), RangeError);
});

test("it draws what the program draws", () => {
  for (const rule of rulesOfProgram()) {
    assert.ok(knows(rule), `split.js lacks the rule ${rule}`);
    for (const [total, count] of [[1, 1], [17, 10], [99_999, 7], [1_000_003, 1_000]]) {
      const seed = randomBytes(32).toString("hex");
      /** @type {Record<string, string[]>} */
      const special = { normal: ["--min", "1", "--max", String(2 * total)], equal: [] };
      const bounds = special[rule] ?? ["--min", "1"];
      const numbers = ["--total", String(total), "--count", String(count)];
      const packet = ["--id", PACKET.id, "--currency", PACKET.currency];
      const args = ["split", ...packet, ...numbers, "--rule", rule, "--seed", seed, "--json", ...bounds];
      const drawn = JSON.parse(execFileSync(PROGRAM, args, { encoding: "utf8" }));
      const min = rule === "equal" ? 0n : 1n;
      const split = { total: BigInt(total), count: BigInt(count), rule, min, max: BigInt(2 * total) };
      assert.deepEqual(shares(unhex(seed), split).map(Number), drawn.shares, `${rule} ${total} ${count} ${seed}`);
      assert.equal(commitment(unhex(seed), split, PACKET), drawn.commitment);
    }
  }
});

test("SHA-256 is SHA-256", () => {
  for (const length of [0, 1, 55, 56, 63, 64, 65, 1_000]) {
    const bytes = randomBytes(length);
    const expected = createHash("sha256").update(bytes).digest("hex");
    assert.equal(Buffer.from(sha256(bytes)).toString("hex"), expected, String(length));
  }
});
