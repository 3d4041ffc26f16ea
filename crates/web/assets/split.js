// @ts-check
// Split of a red packet into shares, like `crates/core/src/split`, so that users can verify it.

const M64 = (1n << 64n) - 1n;

/** @param {bigint} a @param {bigint} b */
const least = (a, b) => (a < b ? a : b);
/** @param {bigint} a @param {bigint} b */
const most = (a, b) => (a > b ? a : b);
/** @param {bigint} a */
const size = (a) => (a < 0n ? -a : a);

/** The ChaCha20 key stream under a seed, as 64-bit words. */
class Stream {
  /** @param {Uint8Array} seed 32 bytes @param {bigint} nonce 64 bits */
  constructor(seed, nonce) {
    const key = new DataView(seed.buffer, seed.byteOffset, 32);
    this.input = new Uint32Array(16);
    this.input.set([0x61707865, 0x3320646e, 0x79622d32, 0x6b206574]);
    for (let i = 0; i < 8; i++) this.input[4 + i] = key.getUint32(4 * i, true);
    this.input[14] = Number(nonce & 0xffffffffn);
    this.input[15] = Number(nonce >> 32n);
    this.block = new Uint32Array(16);
    this.at = 16;
  }

  next() {
    const x = this.block;
    x.set(this.input);
    /** @param {number} a @param {number} b @param {number} c @param {number} d */
    const quarter = (a, b, c, d) => {
      x[a] += x[b]; x[d] ^= x[a]; x[d] = (x[d] << 16) | (x[d] >>> 16);
      x[c] += x[d]; x[b] ^= x[c]; x[b] = (x[b] << 12) | (x[b] >>> 20);
      x[a] += x[b]; x[d] ^= x[a]; x[d] = (x[d] << 8) | (x[d] >>> 24);
      x[c] += x[d]; x[b] ^= x[c]; x[b] = (x[b] << 7) | (x[b] >>> 25);
    };
    for (let round = 0; round < 10; round++) {
      quarter(0, 4, 8, 12); quarter(1, 5, 9, 13); quarter(2, 6, 10, 14); quarter(3, 7, 11, 15);
      quarter(0, 5, 10, 15); quarter(1, 6, 11, 12); quarter(2, 7, 8, 13); quarter(3, 4, 9, 14);
    }
    for (let i = 0; i < 16; i++) x[i] += this.input[i];
    this.input[12]++;
    if (this.input[12] === 0) this.input[13]++;
    this.at = 0;
  }

  word() {
    if (this.at === 16) this.next();
    const low = BigInt(this.block[this.at]);
    const high = BigInt(this.block[this.at + 1]);
    this.at += 2;
    return (high << 32n) | low;
  }

  /** Uniform over 0..bound. @param {bigint} bound */
  below(bound) {
    let product = this.word() * bound;
    if ((product & M64) < bound) {
      const uneven = ((1n << 64n) - bound) % bound;
      while ((product & M64) < uneven) product = this.word() * bound;
    }
    return product >> 64n;
  }

  /** True with probability part / whole. @param {bigint} part @param {bigint} whole */
  chance(part, whole) {
    return part > 0n && this.below(whole) < part;
  }

  /** @param {bigint[]} items */
  shuffle(items) {
    for (let last = items.length - 1; last > 0; last--) {
      const other = Number(this.below(BigInt(last) + 1n));
      [items[last], items[other]] = [items[other], items[last]];
    }
  }
}

/** @param {Stream} stream @param {bigint} left @param {bigint} toCome @param {bigint} min */
function draw(stream, left, toCome, min) {
  if (toCome <= 1n) return left;
  const spare = left - toCome * min;
  const carries = stream.chance((2n * spare) % toCome, toCome);
  return min + stream.below((2n * spare) / toCome + (carries ? 1n : 0n) + 1n);
}

/** @param {Stream} stream @param {bigint} total @param {bigint} count @param {bigint} min @param {bigint} max */
function normal(stream, total, count, min, max) {
  const low = most(total - (count - 1n) * max, min);
  const high = least(total - (count - 1n) * min, max);
  if (low === high) return Array(Number(count)).fill(low);
  /** @param {bigint} width */
  const distance = (width) => {
    let sum = 0n;
    for (let i = 0; i < 4; i++) sum += stream.word() >> 1n;
    return (width * size(sum - (1n << 64n)) + stream.word()) >> 64n;
  };
  const floor = total / count;
  const fraction = total % count;
  /** @type {bigint[]} */
  const shares = [];
  let sum = 0n;
  for (let i = 0n; i < count; i++) {
    const centre = floor + (stream.chance(fraction, count) ? 1n : 0n);
    let below = size(centre - low);
    let above = size(centre - high);
    if (stream.chance(3n, 4n)) below = above = least(below, above);
    const share = stream.chance(above, below + above) ? centre - distance(below) : centre + distance(above);
    shares.push(share);
    sum += share;
  }
  const lacking = total - sum;
  let carry = 0n;
  /** @param {bigint} amount @param {bigint} weights @param {bigint} weight */
  const part = (amount, weights, weight) => {
    const share = amount * weight + carry;
    carry = share % weights;
    return share / weights;
  };
  if (lacking > 0n) {
    const room = count * high - sum;
    shares.forEach((share, i) => { shares[i] += part(lacking, room, high - share); });
  } else if (lacking < 0n) {
    const floorSum = count * low;
    shares.forEach((share, i) => { shares[i] = low + part(total - floorSum, sum - floorSum, share - low); });
  }
  stream.shuffle(shares);
  return shares;
}

/**
 * The shares of a packet in the order of their numbers, in minor units.
 * @param {Uint8Array} seed
 * @param {{ total: bigint, count: bigint, rule: string, min: bigint, max: bigint }} split
 * @returns {bigint[]}
 */
export function shares(seed, { total, count, rule, min, max }) {
  const stream = new Stream(seed, 0n);
  if (rule === "normal") return normal(stream, total, count, min, max);
  /** @type {bigint[]} */
  const all = [];
  if (rule === "equal") {
    const left = Number(total % count);
    for (let i = 0; i < Number(count); i++) all.push(total / count + (i < left ? 1n : 0n));
    if (left > 0) stream.shuffle(all);
    return all;
  }
  let left = total;
  for (let number = 1n; number <= count; number++) {
    const own = rule === "lazy" ? new Stream(seed, number) : stream;
    const share = draw(own, left, count - number + 1n, min);
    left -= share;
    all.push(share);
  }
  if (rule === "double_average") stream.shuffle(all);
  return all;
}

/** Rules, with the codes that a commitment has for them. */
const CODES = new Map([["normal", 1], ["double_average", 2], ["equal", 3], ["lazy", 4]]);

/** Whether this script can verify a split by the rule. @param {string} rule */
export function knows(rule) {
  return CODES.has(rule);
}

/**
 * What is published before a packet opens: the SHA-256 over split, id, currency and seed, in hexadecimal digits.
 * @param {Uint8Array} seed
 * @param {{ total: bigint, count: bigint, rule: string, min: bigint, max: bigint }} split
 * @param {{ id: string, currency: string }} packet
 */
export function commitment(seed, { total, count, rule, min, max }, packet) {
  const parameters = new Uint8Array(30);
  const view = new DataView(parameters.buffer);
  const code = CODES.get(rule);
  if (code === undefined) throw new RangeError(`unknown split rule: ${rule}`);
  parameters.set([1, code]);
  view.setBigInt64(2, total);
  view.setUint32(10, Number(count));
  view.setBigInt64(14, rule === "equal" ? 0n : min);
  view.setBigInt64(22, rule === "normal" ? max : 0n);
  return hash(text("qiang/split/commitment\0"), parameters, uuid(packet.id), text(packet.currency), seed);
}

/** The hash that binds the service to its seed. @param {string} id @param {string} serverSeed */
export function serverSeedHash(id, serverSeed) {
  return hash(text("qiang/split/promise\0"), uuid(id), unhex(serverSeed));
}

/** The seed that service and sender have made. @param {string} serverSeed @param {string} clientSeed */
export function madeOf(serverSeed, clientSeed) {
  return hash(text("qiang/split/seed\0"), unhex(serverSeed), unhex(clientSeed));
}

/** @param {string} words */
function text(words) {
  return new TextEncoder().encode(words);
}

/** @param {string} id */
function uuid(id) {
  return unhex(id.replaceAll("-", ""));
}

/** @param {Uint8Array[]} parts */
function hash(...parts) {
  const bytes = new Uint8Array(parts.reduce((length, part) => length + part.length, 0));
  let at = 0;
  for (const part of parts) {
    bytes.set(part, at);
    at += part.length;
  }
  return hex(sha256(bytes));
}

/** @param {string} digits */
export function unhex(digits) {
  return Uint8Array.from(digits.match(/../g) ?? [], (byte) => parseInt(byte, 16));
}

/** @param {Uint8Array} bytes */
export function hex(bytes) {
  return Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");
}

const K = Uint32Array.from({ length: 64 }, (_, i) => fraction(prime(i), 3));
const H = Uint32Array.from({ length: 8 }, (_, i) => fraction(prime(i), 2));

/** @param {number} index */
function prime(index) {
  let found = 2;
  for (let number = 3; index > 0; number += 2) {
    let isPrime = true;
    for (let divisor = 3; divisor * divisor <= number; divisor += 2) if (number % divisor === 0) isPrime = false;
    if (isPrime) { found = number; index--; }
  }
  return found;
}

/** The first 32 bits of the fraction of a root. @param {number} number @param {number} root */
function fraction(number, root) {
  // By whole numbers: floor(root of number × 2^(32 × root)).
  const target = BigInt(number) << BigInt(32 * root);
  let low = 0n;
  let high = 1n << 40n;
  while (low < high) {
    const middle = (low + high + 1n) >> 1n;
    if (middle ** BigInt(root) <= target) low = middle;
    else high = middle - 1n;
  }
  return Number(low & 0xffffffffn);
}

/**
 * SHA-256 (FIPS 180-4). `crypto.subtle` is there over TLS alone.
 * @param {Uint8Array} message
 */
export function sha256(message) {
  const length = message.length;
  const bytes = new Uint8Array(((length + 8) >> 6) * 64 + 64);
  bytes.set(message);
  bytes[length] = 0x80;
  const view = new DataView(bytes.buffer);
  view.setUint32(bytes.length - 8, Math.floor(length / 0x20000000));
  view.setUint32(bytes.length - 4, length << 3);
  const hash = Uint32Array.from(H);
  const w = new Uint32Array(64);
  /** @param {number} x @param {number} n */
  const turn = (x, n) => (x >>> n) | (x << (32 - n));
  for (let at = 0; at < bytes.length; at += 64) {
    for (let i = 0; i < 16; i++) w[i] = view.getUint32(at + 4 * i);
    for (let i = 16; i < 64; i++) {
      const a = w[i - 15];
      const b = w[i - 2];
      w[i] = w[i - 16] + (turn(a, 7) ^ turn(a, 18) ^ (a >>> 3)) + w[i - 7] + (turn(b, 17) ^ turn(b, 19) ^ (b >>> 10));
    }
    let [a, b, c, d, e, f, g, h] = hash;
    for (let i = 0; i < 64; i++) {
      const one = (h + (turn(e, 6) ^ turn(e, 11) ^ turn(e, 25)) + ((e & f) ^ (~e & g)) + K[i] + w[i]) | 0;
      const two = ((turn(a, 2) ^ turn(a, 13) ^ turn(a, 22)) + ((a & b) ^ (a & c) ^ (b & c))) | 0;
      [h, g, f, e, d, c, b, a] = [g, f, e, (d + one) | 0, c, b, a, (one + two) | 0];
    }
    [a, b, c, d, e, f, g, h].forEach((word, i) => { hash[i] += word; });
  }
  const out = new Uint8Array(32);
  hash.forEach((word, i) => new DataView(out.buffer).setUint32(4 * i, word));
  return out;
}
