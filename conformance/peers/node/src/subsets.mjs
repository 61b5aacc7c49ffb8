// Subsets of a sequence of things (section 9.7): a code byte and some bits. Members are ascending numbers.
import { fail } from './errors.mjs';

/** @typedef {import('./bits.mjs').BitReader} BitReader */
/** @typedef {import('./bits.mjs').BitWriter} BitWriter */

const INVERSE = 32;
const NONE = 64;
const ALL = 96;
const MASK = 128;
/** A gap of this quotient or more is written in the longer form (SUB-3). */
const LONG = 24;
const LONG_BITS = LONG + 32;

/** SUB-3. @param {BitReader} reader @param {number} parameter */
function readGap(reader, parameter) {
  let quotient = 0;
  while (quotient < LONG && reader.bit() === 1) quotient += 1;
  if (quotient < LONG) return quotient * 2 ** parameter + reader.bits(parameter);
  const gap = reader.bits(32);
  if (gap < LONG * 2 ** parameter) fail('malformed_row', 'a gap in the longer form that has a shorter one (SUB-3)');
  return gap;
}

/** SUB-3. @param {BitWriter} writer @param {number} gap @param {number} parameter */
function writeGap(writer, gap, parameter) {
  const quotient = Math.floor(gap / 2 ** parameter);
  if (quotient < LONG) {
    writer.put(2 ** quotient - 1, quotient + 1);
    writer.put(gap % 2 ** parameter, parameter);
  } else {
    writer.put(2 ** LONG - 1, LONG);
    writer.put(gap, 32);
  }
}

/**
 * Reads the subset that follows a code byte.
 * @param {BitReader} reader
 * @param {number} code
 * @param {number} things
 * @param {number} [most] members that there may be (RNK-3)
 * @returns {Uint32Array}
 */
export function readSubset(reader, code, things, most = things) {
  if (code === NONE) return new Uint32Array(0);
  if (code !== ALL && code !== MASK && code >= NONE) fail('malformed_row', `no such code of a subset: ${code} (SUB-1)`);
  if (code === MASK && reader.left < things) fail('malformed_row', 'a bit is missing (RNK-2)');
  const members = new Uint32Array(Math.min(things, most));
  let count = 0;
  const take = (/** @type {number} */ first, /** @type {number} */ end) => {
    if (end - first > members.length - count) fail('malformed_row', 'more items than `changed` (RNK-3)');
    for (let i = first; i < end; i += 1) {
      members[count] = i;
      count += 1;
    }
  };
  if (code === ALL) take(0, things);
  else if (code === MASK) {
    for (let i = 0; i < things; i += 1) if (reader.bit() === 1) take(i, i + 1);
  } else {
    for (let next = 0; next <= things;) {
      const named = next + readGap(reader, code % INVERSE);
      if (named > things) fail('malformed_row', 'a gap leads past the end (SUB-2)');
      if (code >= INVERSE) take(next, named);
      else if (named < things) take(named, named + 1);
      next = named + 1;
    }
  }
  return count === members.length ? members : members.slice(0, count);
}

/** What is no member. @param {number} things @param {Uint32Array} members */
function inverse(things, members) {
  const others = new Uint32Array(things - members.length);
  let [count, at] = [0, 0];
  for (let i = 0; i < things; i += 1) {
    if (at < members.length && members[at] === i) at += 1;
    else {
      others[count] = i;
      count += 1;
    }
  }
  return others;
}

/** The gaps of a list, with that of its end (SUB-2). @param {number} things @param {Uint32Array} named */
function gapsOf(things, named) {
  const gaps = new Uint32Array(named.length + 1);
  let next = 0;
  for (let i = 0; i < gaps.length; i += 1) {
    const number = i < named.length ? named[i] : things;
    gaps[i] = number - next;
    next = number + 1;
  }
  return gaps;
}

/** @param {BitWriter} writer @param {number} code @param {number} things @param {Uint32Array} members */
export function writeSubset(writer, code, things, members) {
  if (code === NONE || code === ALL) return;
  if (code === MASK) {
    let at = 0;
    for (let i = 0; i < things; i += 1) {
      const isMember = at < members.length && members[at] === i;
      writer.put(isMember ? 1 : 0, 1);
      if (isMember) at += 1;
    }
    return;
  }
  const gaps = gapsOf(things, code >= INVERSE ? inverse(things, members) : members);
  for (let i = 0; i < gaps.length; i += 1) writeGap(writer, gaps[i], code % INVERSE);
}

/** Bits of a list. @param {Uint32Array} gaps @param {number} parameter */
function listBits(gaps, parameter) {
  const unit = 2 ** parameter;
  let bits = 0;
  for (let i = 0; i < gaps.length; i += 1) {
    const quotient = Math.floor(gaps[i] / unit);
    bits += quotient < LONG ? quotient + 1 + parameter : LONG_BITS;
  }
  return bits;
}

/** A code of few bits for a subset. @param {number} things @param {Uint32Array} members @returns {number} */
export function chooseCode(things, members) {
  if (members.length === 0) return NONE;
  if (members.length === things) return ALL;
  const rare = 2 * members.length <= things;
  const gaps = gapsOf(things, rare ? members : inverse(things, members));
  // From where the list of independent members is shortest, down and up as long as it gets shorter.
  const start = Math.max(0, Math.floor(Math.log2((Math.LN2 * things) / gaps.length)));
  let [parameter, bits] = [start, listBits(gaps, start)];
  for (const step of [-1, 1]) {
    for (let next = parameter + step; next >= 0 && next < INVERSE; next += step) {
      const other = listBits(gaps, next);
      if (other >= bits) break;
      [parameter, bits] = [next, other];
    }
  }
  if (bits >= things) return MASK;
  return rare ? parameter : INVERSE + parameter;
}
