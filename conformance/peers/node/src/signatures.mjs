// Signatures of records (section 8.14).
import { createPrivateKey, createPublicKey, sign, verify } from 'node:crypto';
import { fail } from './errors.mjs';
import { jsonBytes } from './json.mjs';
import { isSmallOrderKey } from './signing-keys.mjs';

const PREFIX = Buffer.from('deltawire-signature-1\n', 'latin1');
const BLANK = '0'.repeat(128);

/**
 * Public keys that a reader was given (SIG-5, SIG-12); null stands for none.
 * @template {string[] | null} T
 * @param {T} keys
 * @returns {T}
 */
export function checkPublicKeys(keys) {
  if (keys === null) return keys;
  if (!Array.isArray(keys) || keys.length === 0) fail('invalid_argument', 'no public key to believe (SIG-5)');
  for (const key of keys) {
    if (typeof key !== 'string' || !/^ed25519:[0-9a-f]{64}$/.test(key) || isSmallOrderKey(key)) {
      fail('invalid_argument', `not a public key to believe: ${key}`);
    }
  }
  return keys;
}

/**
 * Keys by which a writer reads (SIG-9): its own and those that it was given.
 * @param {{signer?: Signer | null, publicKeys?: string[] | null}} options
 */
export function writerKeys({ signer, publicKeys }) {
  const given = checkPublicKeys(publicKeys ?? null);
  return signer ? checkPublicKeys([signer.publicKey, ...(given ?? [])]) : given;
}

/** What is signed (SIG-3): the digits at `at` are blanked out. @param {Uint8Array} bytes @param {number} at */
function message(bytes, at) {
  const out = Buffer.concat([PREFIX, bytes]);
  out.write(BLANK, PREFIX.length + at, 'latin1');
  return out;
}

/**
 * Where the digits stand in the bytes, at exactly one place (SIG-4).
 * @param {Uint8Array} bytes
 * @param {string} value
 */
function placeOf(bytes, value) {
  const buffer = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  const at = buffer.indexOf(value, 0, 'latin1');
  if (at === -1 || buffer.indexOf(value, at + 1, 'latin1') !== -1) {
    fail('malformed_record', 'the digits of the signature do not stand at exactly one place (SIG-4)');
  }
  return at;
}

/**
 * SIG-5 and SIG-6.
 * @param {any} record
 * @param {Uint8Array} bytes
 * @param {string[][]} lists the key that signed has to be in each of them
 */
export function checkSignature(record, bytes, lists) {
  if (!record.signature) fail('bad_signature', 'the record is not signed');
  const { key, value } = record.signature;
  const at = placeOf(bytes, value);
  if (!lists.every((list) => list.includes(key))) fail('bad_signature', `${key} may not sign this record`);
  let valid = false;
  try {
    const x = Buffer.from(key.slice('ed25519:'.length), 'hex').toString('base64url');
    const publicKey = createPublicKey({ key: { kty: 'OKP', crv: 'Ed25519', x }, format: 'jwk' });
    valid = verify(null, message(bytes, at), publicKey, Buffer.from(value, 'hex'));
  } catch {
    // A key that is no point of the curve verifies nothing.
  }
  if (!valid) fail('bad_signature', 'the signature does not verify');
}

/** A private key that signs records. */
export class Signer {
  /** @param {string | Buffer} pem PKCS8 */
  constructor(pem) {
    try {
      this.privateKey = createPrivateKey(pem);
    } catch (error) {
      fail('invalid_argument', 'not a private key', error);
    }
    if (this.privateKey.asymmetricKeyType !== 'ed25519') fail('invalid_argument', 'not an Ed25519 key');
    const { x } = createPublicKey(this.privateKey).export({ format: 'jwk' });
    this.publicKey = `ed25519:${Buffer.from(/** @type {string} */ (x), 'base64url').toString('hex')}`;
  }

  /** The bytes of a signed record (SIG-2 to SIG-4). @param {any} record without `signature` @returns {Buffer} */
  sign(record) {
    const bytes = jsonBytes({ ...record, signature: { key: this.publicKey, value: BLANK } });
    const tail = Buffer.from(`"value":"${BLANK}"}`, 'latin1');
    const at = bytes.lastIndexOf(tail) + '"value":"'.length;
    const value = sign(null, message(bytes, at), this.privateKey).toString('hex');
    bytes.write(value, at, 'latin1');
    placeOf(bytes, value);
    return bytes;
  }
}
