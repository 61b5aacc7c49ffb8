// Checks of JSON values against the types of section 7.1. A checker takes a value and its place, and throws.
import { fail } from './errors.mjs';
import { isFileName, isKey } from './keys.mjs';

/** @typedef {(value: any, at: string) => void} Check */

/** @param {string} at @param {string} what @returns {never} */
const refuse = (at, what) => fail('malformed_record', `${at}: ${what}`);

/** @type {Check} JSN-3: the parser leaves every other form of number as an object. */
export const uint = (value, at) => {
  if (typeof value !== 'number' || value < 0) refuse(at, 'not an integer from 0 to 2^53-1');
};

/** @param {number} low @param {number} high @returns {Check} */
export const uintIn = (low, high) => (value, at) => {
  uint(value, at);
  if (value < low || value > high) refuse(at, `not from ${low} to ${high}`);
};

/** @type {Check} */
export const string = (value, at) => {
  if (typeof value !== 'string') refuse(at, 'not a string');
};

/** @type {Check} */
export const boolean = (value, at) => {
  if (typeof value !== 'boolean') refuse(at, 'not a boolean');
};

/** @type {Check} */
export const anyObject = (value, at) => {
  if (value === null || typeof value !== 'object' || Array.isArray(value) || Object.getPrototypeOf(value) !== null) {
    refuse(at, 'not an object');
  }
};

/** @param {RegExp} form @param {string} what @returns {Check} */
const pattern = (form, what) => (value, at) => {
  if (typeof value !== 'string' || !form.test(value)) refuse(at, `not ${what}`);
};

export const hex64 = pattern(/^[0-9a-f]{16}$/, 'a hex64');
export const sha256 = pattern(/^sha256:[0-9a-f]{64}$/, 'a sha256');
export const publicKey = pattern(/^ed25519:[0-9a-f]{64}$/, 'a public key');
export const hex512 = pattern(/^[0-9a-f]{128}$/, 'a hex512');
export const uuid = pattern(/^[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}$/, 'a uuid');
export const timestamp = pattern(
  /^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}(?:\.[0-9]{1,9})?Z$/,
  'a timestamp',
);
export const versionString = pattern(/^(?:0|[1-9][0-9]{0,3})\.(?:0|[1-9][0-9]{0,3})$/, 'a version string');

/** @type {Check} */
export const name = (value, at) => {
  string(value, at);
  if (value.length === 0 || value.length > 400 || [...value].length > 200) refuse(at, 'not of 1 to 200 characters');
};

/** @type {Check} */
export const feature = (value, at) => {
  string(value, at);
  if (value.length > 64 || !/^[a-z0-9]+(?:-[a-z0-9]+)*$/.test(value)) refuse(at, 'not a feature');
};

/** @type {Check} */
export const key = (value, at) => {
  string(value, at);
  if (!isKey(value)) refuse(at, 'not a key (KEY-1)');
};

/** @type {Check} */
export const fileName = (value, at) => {
  string(value, at);
  if (!isFileName(value)) refuse(at, 'not the name of an auxiliary file (FIL-2)');
};

/** @type {Check} FRK-2 */
export const plainUrl = (value, at) => {
  string(value, at);
  if ([...value].length > 2000 || !/^[A-Za-z][A-Za-z0-9+.-]*:\/\/[^/?#@\s]*(?:\/[^?#\s]*)?$/.test(value)) {
    refuse(at, 'not a plain URL');
  }
};

/** @param {...string} words @returns {Check} */
export const oneOf =
  (...words) =>
  (value, at) => {
    if (!words.includes(value)) refuse(at, `not one of ${words.join(', ')}`);
  };

/** @param {Check} item @returns {Check} */
export const arrayOf = (item) => (value, at) => {
  if (!Array.isArray(value)) refuse(at, 'not an array');
  value.forEach((/** @type {any} */ member, /** @type {number} */ i) => item(member, `${at}[${i}]`));
};

/**
 * An object with these members. Members of other names are let be (VER-4); null is no value (JSN-4).
 * @param {Record<string, Check>} required
 * @param {Record<string, Check>} [optional]
 * @returns {Check}
 */
export const object =
  (required, optional = {}) =>
  (value, at) => {
    anyObject(value, at);
    for (const [member, check] of Object.entries(required)) {
      if (!(member in value)) refuse(at, `${member} is missing`);
      check(value[member], `${at}.${member}`);
    }
    for (const [member, check] of Object.entries(optional)) {
      if (member in value) check(value[member], `${at}.${member}`);
    }
  };

/** @param {...Check} checks @returns {Check} */
export const all =
  (...checks) =>
  (value, at) =>
    checks.forEach((check) => check(value, at));
