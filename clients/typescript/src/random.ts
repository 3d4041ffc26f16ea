// Web Cryptography: in browsers and in Node from 19 on it is a global, and in Node 18 it is a module.

// A bundler for browsers must not look for the module.
const NODE_MODULE = "node:crypto";

/** Web Cryptography of this environment. */
export async function webCrypto(): Promise<Crypto> {
  const found = globalThis.crypto as Crypto | undefined;
  return found ?? ((await import(NODE_MODULE)) as { webcrypto: Crypto }).webcrypto;
}

/** Fresh idempotency key. */
export async function randomKey(): Promise<string> {
  const bytes = (await webCrypto()).getRandomValues(new Uint8Array(16));
  return Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");
}
