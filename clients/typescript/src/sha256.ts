// SHA-256 (FIPS 180-4) without promises: a proof of work hashes thousands of short texts.

/** The first 64 primes: the constants are the fractions of their roots. */
const PRIMES: number[] = [];
for (let number = 2; PRIMES.length < 64; number += 1) {
  if (PRIMES.every((prime) => number % prime !== 0)) {
    PRIMES.push(number);
  }
}
const fraction = (root: number): number => ((root - Math.floor(root)) * 2 ** 32) | 0;
const START = PRIMES.slice(0, 8).map((prime) => fraction(Math.sqrt(prime)));
const ROUNDS = Int32Array.from(PRIMES, (prime) => fraction(Math.cbrt(prime)));

const rotated = (word: number, bits: number): number => (word >>> bits) | (word << (32 - bits));

/** Hash of these bytes, as eight words of 32 bits. */
export function sha256(bytes: Uint8Array): Int32Array {
  const length = ((bytes.length + 8) >> 6) + 1;
  const padded = new Uint8Array(length * 64);
  padded.set(bytes);
  padded[bytes.length] = 0x80;
  const view = new DataView(padded.buffer);
  view.setUint32(padded.length - 8, Math.floor(bytes.length / 2 ** 29));
  view.setUint32(padded.length - 4, bytes.length << 3);
  const hash = Int32Array.from(START);
  for (let block = 0; block < length; block += 1) {
    compress(hash, view, block * 64);
  }
  return hash;
}

const words = new Int32Array(64);

/** Word of an array that has it. */
const at = (array: Int32Array, index: number): number => array[index] as number;

function compress(hash: Int32Array, view: DataView, offset: number): void {
  for (let t = 0; t < 16; t += 1) {
    words[t] = view.getInt32(offset + t * 4);
  }
  for (let t = 16; t < 64; t += 1) {
    const early = at(words, t - 15);
    const late = at(words, t - 2);
    const first = rotated(early, 7) ^ rotated(early, 18) ^ (early >>> 3);
    const second = rotated(late, 17) ^ rotated(late, 19) ^ (late >>> 10);
    words[t] = at(words, t - 16) + first + at(words, t - 7) + second;
  }
  let [a, b, c, d, e, f, g, h] = hash as unknown as [number, number, number, number, number, number, number, number];
  for (let t = 0; t < 64; t += 1) {
    const sum = rotated(e, 6) ^ rotated(e, 11) ^ rotated(e, 25);
    const one = (h + sum + ((e & f) ^ (~e & g)) + at(ROUNDS, t) + at(words, t)) | 0;
    const two = (rotated(a, 2) ^ rotated(a, 13) ^ rotated(a, 22)) + ((a & b) ^ (a & c) ^ (b & c));
    [h, g, f, e, d, c, b, a] = [g, f, e, (d + one) | 0, c, b, a, (one + two) | 0];
  }
  [a, b, c, d, e, f, g, h].forEach((word, index) => {
    hash[index] = at(hash, index) + word;
  });
}
