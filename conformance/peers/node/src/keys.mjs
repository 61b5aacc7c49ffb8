// Keys and names (sections 6 and 8.8).
import { fail } from './errors.mjs';

const EDGE = '[A-Za-z0-9_-]';
const SEGMENT = `${EDGE}(?:[A-Za-z0-9._-]*${EDGE})?`;
const KEY = new RegExp(`^${SEGMENT}(?:/${SEGMENT})*$`);
const FILE_NAME = /^[A-Za-z0-9_-](?:[A-Za-z0-9._-]{0,98}[A-Za-z0-9_-])?$/;

/** KEY-1. @param {string} key */
export function isKey(key) {
  return key.length <= 512 && KEY.test(key);
}

/** KEY-1, in a store. @param {string} key */
export function requireKey(key) {
  if (typeof key !== 'string' || !isKey(key)) fail('invalid_key', `not a key: ${JSON.stringify(key)}`);
}

/** FIL-2. @param {string} name */
export function isFileName(name) {
  return FILE_NAME.test(name) && name !== 'tensors' && !/\.safetensors(?:\.index\.json)?$/.test(name);
}

/** KEY-2. @param {number} version */
export const digits20 = (version) => String(version).padStart(20, '0');
/** @param {number} version */
export const versionKey = (version) => `versions/${digits20(version)}.json`;
/** @param {number} version */
export const anchorKey = (version) => `anchors/${digits20(version)}.json`;
/** @param {number} base @param {number} target */
export const spanKey = (base, target) => `spans/${digits20(target)}-${digits20(base)}.json`;
/** KEY-4. @param {number} version @param {string} commitId */
export const dataFolder = (version, commitId) => `data/${digits20(version)}-${commitId}/`;

/**
 * The number in the key of a record below `prefix`, or null for a key that is not one (KEY-5).
 * @param {string} key
 * @param {'versions/' | 'anchors/'} prefix
 */
export function numberInKey(key, prefix) {
  const match = /^([0-9]{20})\.json$/.exec(key.startsWith(prefix) ? key.slice(prefix.length) : '');
  const number = match ? Number(match[1]) : NaN;
  return Number.isSafeInteger(number) ? number : null;
}

/**
 * Base and target in the key of a span record, or null.
 * @param {string} key
 */
export function spanInKey(key) {
  const match = /^spans\/([0-9]{20})-([0-9]{20})\.json$/.exec(key);
  if (!match) return null;
  const [target, base] = [Number(match[1]), Number(match[2])];
  return Number.isSafeInteger(target) && base < target ? { base, target } : null;
}
