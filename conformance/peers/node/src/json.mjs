// Strict I-JSON (JSN-1 to JSN-4). Objects become objects without prototype; integers of at most 2^53-1 become
// numbers; every other number becomes a JsonNumber, so that `1.0` is never taken for an integer (JSN-3) and is
// written again as it was (VER-5).
import { DeltawireError } from './errors.mjs';

/** A number that is not an integer of at most 53 bits, as it was written. */
export class JsonNumber {
  /** @param {string} text */
  constructor(text) {
    this.text = text;
  }
}

const NUMBER = /-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?/y;
const INTEGER = /^-?[0-9]+$/;
const PLAIN = /[^"\\\u0000-\u001f]*/y;
const HALF_PAIR = /[\ud800-\udbff](?![\udc00-\udfff])|(?<![\ud800-\udbff])[\udc00-\udfff]/;
const ESCAPES = { '"': '"', '\\': '\\', '/': '/', b: '\b', f: '\f', n: '\n', r: '\r', t: '\t' };

class Parser {
  /**
   * @param {string} text
   * @param {number} maxDepth
   * @param {string} code
   */
  constructor(text, maxDepth, code) {
    this.text = text;
    this.at = 0;
    this.maxDepth = maxDepth;
    this.code = code;
  }

  /** @param {string} why @returns {never} */
  refuse(why) {
    throw new DeltawireError(this.code, `JSON, at ${this.at}: ${why}`);
  }

  space() {
    for (;;) {
      const c = this.text.charCodeAt(this.at);
      if (c !== 0x20 && c !== 0x0a && c !== 0x0d && c !== 0x09) return;
      this.at += 1;
    }
  }

  document() {
    this.space();
    if (this.text[this.at] !== '{') this.refuse('not an object');
    const value = this.value(1);
    this.space();
    if (this.at !== this.text.length) this.refuse('something follows the object');
    return value;
  }

  /** @param {number} depth @returns {any} */
  value(depth) {
    this.space();
    switch (this.text[this.at]) {
      case '{':
        return this.object(depth);
      case '[':
        return this.array(depth);
      case '"':
        return this.string();
      case 't':
        return this.word('true', true);
      case 'f':
        return this.word('false', false);
      case 'n':
        return this.word('null', null);
      default:
        return this.number();
    }
  }

  /** @param {string} word @param {boolean | null} value */
  word(word, value) {
    if (!this.text.startsWith(word, this.at)) this.refuse('no value');
    this.at += word.length;
    return value;
  }

  number() {
    NUMBER.lastIndex = this.at;
    const match = NUMBER.exec(this.text);
    if (!match) this.refuse('no value');
    const text = match[0];
    const value = Number(text);
    if (!Number.isFinite(value)) this.refuse('a number beyond the range of a double');
    this.at += text.length;
    if (!INTEGER.test(text) || !Number.isSafeInteger(value)) return new JsonNumber(text);
    return value; // -0 stays, so that it is written again as it was; it counts as 0 (JSN-3)
  }

  string() {
    let out = '';
    this.at += 1;
    for (;;) {
      PLAIN.lastIndex = this.at;
      out += /** @type {RegExpExecArray} */ (PLAIN.exec(this.text))[0];
      this.at = PLAIN.lastIndex;
      const c = this.text[this.at];
      if (c === '"') break;
      if (c !== '\\') this.refuse('a string without end, or with a control character');
      out += this.escape();
    }
    this.at += 1;
    if (HALF_PAIR.test(out)) this.refuse('half a surrogate pair');
    return out;
  }

  escape() {
    const c = this.text[this.at + 1];
    if (c === 'u') {
      const digits = this.text.slice(this.at + 2, this.at + 6);
      if (!/^[0-9a-fA-F]{4}$/.test(digits)) this.refuse('a bad escape');
      this.at += 6;
      return String.fromCharCode(parseInt(digits, 16));
    }
    if (c === undefined || !(c in ESCAPES)) this.refuse('a bad escape');
    this.at += 2;
    return ESCAPES[/** @type {keyof typeof ESCAPES} */ (c)];
  }

  /** @param {number} depth */
  enter(depth) {
    if (depth > this.maxDepth) {
      throw new DeltawireError('limit_exceeded', `JSON nested deeper than json_depth = ${this.maxDepth}`);
    }
    this.at += 1;
    this.space();
  }

  /** @param {number} depth @returns {any[]} */
  array(depth) {
    this.enter(depth);
    /** @type {any[]} */
    const out = [];
    if (this.text[this.at] === ']') {
      this.at += 1;
      return out;
    }
    for (;;) {
      out.push(this.value(depth + 1));
      if (this.more(']')) return out;
    }
  }

  /** @param {number} depth */
  object(depth) {
    this.enter(depth);
    const out = Object.create(null);
    if (this.text[this.at] === '}') {
      this.at += 1;
      return out;
    }
    for (;;) {
      this.space();
      if (this.text[this.at] !== '"') this.refuse('no member');
      const name = this.string();
      if (name in out) this.refuse(`member ${JSON.stringify(name)} twice`);
      this.space();
      if (this.text[this.at] !== ':') this.refuse('no colon');
      this.at += 1;
      out[name] = this.value(depth + 1);
      if (this.more('}')) return out;
    }
  }

  /** Past a comma (false) or the end (true). @param {string} end */
  more(end) {
    this.space();
    const c = this.text[this.at];
    if (c !== ',' && c !== end) this.refuse('no comma and no end');
    this.at += 1;
    return c === end;
  }
}

/**
 * Parses one JSON object.
 * @param {Uint8Array} bytes
 * @param {number} maxDepth the limit `json_depth`
 * @param {string} [code] the code of what is not I-JSON
 * @returns {any}
 */
export function parseJson(bytes, maxDepth, code = 'malformed_record') {
  let text;
  try {
    text = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(bytes);
  } catch {
    throw new DeltawireError(code, 'JSON that is not UTF-8');
  }
  return new Parser(text, maxDepth, code).document();
}

/**
 * Writes a value without white space.
 * @param {any} value
 * @returns {string}
 */
export function writeJson(value) {
  if (value instanceof JsonNumber) return value.text;
  if (Object.is(value, -0)) return '-0';
  if (Array.isArray(value)) return `[${value.map(writeJson).join(',')}]`;
  if (value !== null && typeof value === 'object') {
    const members = Object.entries(value).filter(([, member]) => member !== undefined);
    return `{${members.map(([name, member]) => `${JSON.stringify(name)}:${writeJson(member)}`).join(',')}}`;
  }
  return JSON.stringify(value);
}

/** @param {any} value */
export function jsonBytes(value) {
  return Buffer.from(writeJson(value), 'utf8');
}
