// @ts-check
// The split that the browser draws again is the service's.

import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { createHash, randomBytes } from "node:crypto";
import { test } from "node:test";
import { commitment, madeOf, promise, sha256, shares, unhex } from "./assets/split.js";
import { PROGRAM } from "./stage.mjs";

const SEED = Uint8Array.from({ length: 32 }, (_, i) => i);
const LARGEST = (1n << 63n) - 1n;

test("it has the values of version 1", () => {
  /**
   * @param {number | bigint} total @param {number} count @param {string} rule @param {string} promised
   * @param {(number | bigint)[]} amounts
   */
  const check = (total, count, rule, promised, amounts, min = 0n, max = 0n) => {
    const split = { total: BigInt(total), count: BigInt(count), rule, min, max };
    assert.deepEqual(shares(SEED, split), amounts.map(BigInt));
    if (promised) assert.equal(commitment(SEED, split), promised);
  };
  check(10_000, 10, "normal", "f65d9e5aebfc9009a931d599e2be5c5f1a1d816249108162149c58870196d0ed",
    [863, 945, 985, 1104, 843, 1150, 821, 1177, 882, 1230], 500n, 2_000n);
  check(LARGEST, 4, "normal", "0d4ae6aa3ce4018bb3b14c722e54a17371a9d2a4a6392c1a05dbf8cfa6b0cbf5",
    [2477540025212212103n, 2255049828811953620n, 2672329671832201225n, 1818452510998408859n], 1n, LARGEST);
  check(109, 10, "normal", "2ac9b07ea8e883c9362aba2127d681d1a92d1e9174d403734d039975be2ac562",
    [10, 11, 11, 11, 11, 11, 11, 11, 11, 11], 1n, 11n);
  check(10_000, 10, "double_average", "a044ac9c3bad8cbfa51b79a95d381005bf78077045a49ca78643dd1c0127577c",
    [1368, 2388, 829, 105, 826, 584, 395, 1089, 1191, 1225], 1n);
  check(LARGEST, 4, "double_average", "8296f34c73d408a61e6d5ff5391be4835b0084f5a388306687c861691d5ccf44",
    [1719823315232140306n, 3522172421469969448n, 2661057250684127330n, 1320319049468538723n], 1n);
  check(10_003, 10, "equal", "9990302ad0f26c90e2147de78aca4294675cb82fb85aeeb189ac6ee140f42899",
    [1000, 1000, 1000, 1001, 1001, 1000, 1000, 1000, 1001, 1000]);
});

test("it has the values of a packet's commitment", () => {
  const id = "01932c07-8e5a-7a3c-9f1e-2b7c5d4e6f80";
  const secret = Buffer.from(SEED).toString("hex");
  const entropy = Buffer.from(SEED.map((byte) => 0xff - byte)).toString("hex");
  assert.equal(promise(id, secret), "b50ad7a0c71f1b8068b6c633cedf514b4e4d9674f6e6d952191465883e6ac164");
  const seed = madeOf(secret, entropy);
  assert.equal(seed, "ac952f3e1412836d4b6259d3f7eb1547371ea5ebf8669f33b3c03bdf8122a6ff");
  const split = { total: 10_000n, count: 10n, rule: "normal", min: 500n, max: 2_000n };
  const committed = commitment(unhex(seed), split, { id, currency: "CNY" });
  assert.equal(committed, "0fa8be17af0d23b4a06cd8a8bb2b856c47346c7f8d0263e648995a6a9ef3a4c9");
});

test("it draws what the program draws", () => {
  for (const rule of ["normal", "double_average", "equal", "lazy"]) {
    for (const [total, count] of [[1, 1], [17, 10], [99_999, 7], [1_000_003, 1_000]]) {
      const seed = randomBytes(32).toString("hex");
      const bounds = { normal: ["--min", "1", "--max", String(2 * total)], equal: [] }[rule] ?? ["--min", "1"];
      const numbers = ["--total", String(total), "--count", String(count)];
      const args = ["split", ...numbers, "--rule", rule, "--seed", seed, "--json", ...bounds];
      const drawn = JSON.parse(execFileSync(PROGRAM, args, { encoding: "utf8" }));
      const min = rule === "equal" ? 0n : 1n;
      const split = { total: BigInt(total), count: BigInt(count), rule, min, max: BigInt(2 * total) };
      assert.deepEqual(shares(unhex(seed), split).map(Number), drawn.shares, `${rule} ${total} ${count} ${seed}`);
      assert.equal(commitment(unhex(seed), split), drawn.commitment);
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
