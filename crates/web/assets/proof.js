// @ts-check
// The check that a packet's shares follow from what was published before anyone opened it.

import { say } from "./qiang.js";
import { commitment, knows, madeOf, serverSeedHash, shares, unhex } from "./split.js";

/** @param {import("./qiang.js").Packet} packet @param {import("./qiang.js").Share[]} draws */
export function verdictOf(packet, draws) {
  const bad = (/** @type {string} */ name, parts = {}) => ({ isGood: false, words: say(name, parts) });
  const seed = unhex(packet.seed ?? "");
  const split = {
    total: BigInt(packet.total.amount), count: BigInt(packet.shares), rule: packet.split.rule,
    min: BigInt(packet.split.min ?? 1), max: BigInt(packet.split.max ?? 0),
  };
  // A page that is older than the service must not accuse a packet whose rule it does not know.
  if (!knows(split.rule)) return bad("proof_unknown_rule");
  const bound = { id: packet.id, currency: packet.total.currency };
  if (commitment(seed, split, bound) !== packet.commitment) return bad("proof_bad_commitment");
  const { server_seed: serverSeed = "", client_seed: clientSeed } = packet;
  if (clientSeed && (serverSeedHash(packet.id, serverSeed) !== packet.server_seed_hash
    || madeOf(serverSeed, clientSeed) !== packet.seed)) return bad("proof_bad_promise");
  const promised = shares(seed, split);
  const wrong = draws.find((share) => promised[share.number - 1] !== BigInt(share.amount.amount));
  if (wrong) return bad("proof_bad_share", { number: wrong.number });
  return { isGood: true, words: say(clientSeed ? "proof_good_both" : "proof_good", { count: draws.length }) };
}
