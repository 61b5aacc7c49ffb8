// Public keys that anyone can sign for (SIG-12).
const P = 2n ** 255n - 19n;
const Y = 0x7a03ac9277fdc74ec6cc392cfa53202a0f67100d760b3cba4fd84d3d706a17c7n;
const SMALL = new Set([0n, 1n, P - 1n, Y, P - Y]);

/**
 * Whether the point of a public key has an order that divides 8, in whatever encoding: the sign bit is left out
 * and the ordinate is taken modulo p.
 * @param {string} key `ed25519:` and 64 digits
 */
export function isSmallOrderKey(key) {
  const bytes = Buffer.from(key.slice('ed25519:'.length), 'hex').reverse();
  bytes[0] &= 0x7f;
  return SMALL.has(BigInt(`0x${bytes.toString('hex')}`) % P);
}
