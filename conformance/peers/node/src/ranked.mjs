// The codec `ranked` (section 9.6): elements in classes by the size of their old value, and class by class which of
// them changed, and how. Whether a dtype's order is `float` makes no difference here.
import { BitReader, BitWriter } from './bits.mjs';
import { fail } from './errors.mjs';
import { newPatterns } from './patterns.mjs';
import { chooseCode, readSubset, writeSubset } from './subsets.mjs';

/** @typedef {import('./patterns.mjs').Patterns} Patterns */

const LEVELS = 256;
const MOST_CLASSES = 16;
/** Marks of an item. */
const FLIPS = 1;
const DOWN = 2;

/** Levels of old bits: the uppermost 8 bits of their magnitudes, or the whole magnitude of a byte. */
class Levels {
  /** @param {Patterns} values */
  constructor(values) {
    const wide = values.BYTES_PER_ELEMENT === 8;
    const bits = wide ? 32 : 8 * values.BYTES_PER_ELEMENT;
    this.words = values instanceof BigUint64Array ? halvesOf(values) : values;
    this.stride = wide ? 2 : 1;
    this.mask = 2 ** (bits - 1) - 1;
    this.shift = Math.max(0, bits - 9);
  }

  /** @param {number} flat */
  at(flat) {
    return (this.words[this.stride * flat + this.stride - 1] & this.mask) >>> this.shift;
  }
}

/** @param {BigUint64Array} values */
const halvesOf = ({ buffer, byteOffset, length }) => new Uint32Array(buffer, byteOffset, 2 * length);

/** The magnitude that a distance leads to (RNK-4). @template {number | bigint} N @param {N} now @param {N} most */
function checkMagnitude(now, most) {
  if (now < 0 || now > most) fail('malformed_row', 'a magnitude out of range (RNK-4)');
  return now;
}

/** New bits of an item (RNK-4). @param {number} old @param {number} value @param {number} marks @param {number} half */
function applyNarrow(old, value, marks, half) {
  const flips = (marks & FLIPS) !== 0;
  const distance = flips ? value : value + 1;
  if (marks & DOWN && distance === 0) fail('malformed_row', 'an item goes down by nothing (RNK-4)');
  const magnitude = old % half;
  const now = checkMagnitude(marks & DOWN ? magnitude - distance : magnitude + distance, half - 1);
  return old >= half !== flips ? now + half : now;
}

/** The same for 8 bytes. @param {bigint} old @param {bigint} value @param {number} marks */
function applyWide(old, value, marks) {
  const half = 1n << 63n;
  const flips = (marks & FLIPS) !== 0;
  const distance = flips ? value : value + 1n;
  if (marks & DOWN && distance === 0n) fail('malformed_row', 'an item goes down by nothing (RNK-4)');
  const magnitude = old % half;
  const now = checkMagnitude(marks & DOWN ? magnitude - distance : magnitude + distance, half - 1n);
  return old >= half !== flips ? now + half : now;
}

/** The numbers below a count. @param {number} count */
function numbers(count) {
  const out = new Uint32Array(count);
  for (let i = 0; i < count; i += 1) out[i] = i;
  return out;
}

/** The stream `classes`, from its beginning. */
class ClassReader {
  /** RNK-1. @param {Uint8Array} stream */
  constructor(stream) {
    this.stream = stream;
    this.at = 0;
    this.count = this.next();
    if (this.count < 1 || this.count > MOST_CLASSES) fail('malformed_row', 'not 1 to 16 classes (RNK-1)');
    /** Which class a level is in. */
    this.classOf = new Uint8Array(LEVELS);
    let first = 0;
    for (let i = 0; i < this.count; i += 1) {
      const last = this.next();
      if (last < first) fail('malformed_row', 'last levels do not ascend (RNK-1)');
      this.classOf.fill(i, first, last + 1);
      first = last + 1;
    }
    if (first !== LEVELS) fail('malformed_row', 'the last level is not 255 (RNK-1)');
  }

  /** The next byte. */
  next() {
    if (this.at >= this.stream.length) fail('malformed_row', '`classes` ends early (RNK-1, RNK-2)');
    this.at += 1;
    return this.stream[this.at - 1];
  }

  /** RNK-2. */
  end() {
    if (this.at !== this.stream.length) fail('malformed_row', 'more code bytes than subsets (RNK-2)');
  }
}

/**
 * Items of one class.
 * @typedef {object} Items
 * @property {Uint32Array} ranks their places among the elements of the class
 * @property {Uint8Array} marks
 * @property {Uint32Array | BigUint64Array} values
 */

/**
 * Reads the items of one class.
 * @param {ClassReader} codes
 * @param {BitReader} reader
 * @param {number} elements of the class
 * @param {number} most items that there may be
 * @param {number} width
 * @returns {Items}
 */
function readItems(codes, reader, elements, most, width) {
  const ranks = readSubset(reader, codes.next(), elements, most);
  const count = ranks.length;
  const marks = new Uint8Array(count);
  const values = width === 8 ? new BigUint64Array(count) : new Uint32Array(count);
  if (count === 0) return { ranks, marks, values };
  for (const mark of [FLIPS, DOWN]) for (const i of readSubset(reader, codes.next(), count)) marks[i] |= mark;
  const lengths = new Uint8Array(count);
  let layer = numbers(count);
  for (let length = 1; length < 8 * width && layer.length > 0; length += 1) {
    const below = layer;
    layer = readSubset(reader, codes.next(), below.length).map((i) => below[i]);
    for (const i of layer) lengths[i] = length;
  }
  for (let i = 0; i < count; i += 1) {
    const digits = Math.max(0, lengths[i] - 1);
    if (values instanceof Uint32Array) values[i] = lengths[i] === 0 ? 0 : 2 ** digits + reader.bits(digits);
    else if (lengths[i] > 0) {
      const low = BigInt(reader.bits(Math.min(32, digits)));
      values[i] = (1n << BigInt(digits)) | (BigInt(reader.bits(Math.max(0, digits - 32))) << 32n) | low;
    }
  }
  return { ranks, marks, values };
}

/**
 * Decodes a row. Room is made for `changed` items, never more than the box has elements (LIM-3).
 * @param {import('./codecs.mjs').Streams} streams
 * @param {number} changed
 * @param {number} elements
 * @param {import('./boxes.mjs').BoxMap} map
 * @param {Patterns} held the tensor's old bits
 * @returns {{positions: Uint32Array, before: Patterns, after: Patterns}}
 */
export function decodeRanked(streams, changed, elements, map, held) {
  const codes = new ClassReader(streams.classes);
  const reader = new BitReader(streams.items);
  const levels = new Levels(held);
  const { classOf } = codes;
  const sizes = new Uint32Array(codes.count);
  for (let i = 0; i < elements; i += 1) sizes[classOf[levels.at(map.flat(i))]] += 1;
  /** @type {Items[]} */
  const items = [];
  let left = changed;
  for (const size of sizes) {
    const own = readItems(codes, reader, size, left, held.BYTES_PER_ELEMENT);
    left -= own.ranks.length;
    items.push(own);
  }
  if (left > 0) fail('malformed_row', 'fewer items than `changed` (RNK-3)');
  codes.end();
  reader.end();

  const positions = new Uint32Array(changed);
  const width = held.BYTES_PER_ELEMENT;
  const [before, after] = [newPatterns(changed, width), newPatterns(changed, width)];
  const half = 2 ** (8 * width - 1);
  const ranks = new Uint32Array(codes.count);
  const taken = new Uint32Array(codes.count);
  for (let i = 0, count = 0; count < changed; i += 1) {
    const flat = map.flat(i);
    const own = classOf[levels.at(flat)];
    const { ranks: wanted, marks, values } = items[own];
    const at = taken[own];
    if (at < wanted.length && wanted[at] === ranks[own]) {
      taken[own] += 1;
      positions[count] = i;
      before[count] = held[flat];
      after[count] =
        values instanceof BigUint64Array
          ? applyWide(/** @type {bigint} */ (held[flat]), values[at], marks[at])
          : applyNarrow(/** @type {number} */ (held[flat]), values[at], marks[at], half);
      count += 1;
    }
    ranks[own] += 1;
  }
  return { positions, before, after };
}

/**
 * How the changed elements of a box changed.
 * @param {ArrayLike<number>} positions
 * @param {Patterns} olds of the whole box
 * @param {Patterns} news of the whole box
 */
function changesOf(positions, olds, news) {
  const count = positions.length;
  const marks = new Uint8Array(count);
  const lengths = new Uint8Array(count);
  const values = olds instanceof BigUint64Array ? new BigUint64Array(count) : new Uint32Array(count);
  const half = 2 ** (8 * olds.BYTES_PER_ELEMENT - 1);
  for (let i = 0; i < count; i += 1) {
    const [old, now] = [olds[positions[i]], news[positions[i]]];
    if (values instanceof BigUint64Array) {
      const [from, to] = [BigInt.asUintN(63, BigInt(old)), BigInt.asUintN(63, BigInt(now))];
      const flips = (BigInt(old) ^ BigInt(now)) >> 63n === 1n;
      marks[i] = (flips ? FLIPS : 0) | (to < from ? DOWN : 0);
      values[i] = (to < from ? from - to : to - from) - (flips ? 0n : 1n);
      lengths[i] = values[i] === 0n ? 0 : values[i].toString(2).length;
    } else {
      const [from, to] = [Number(old) % half, Number(now) % half];
      const flips = Number(old) >= half !== Number(now) >= half;
      marks[i] = (flips ? FLIPS : 0) | (to < from ? DOWN : 0);
      values[i] = Math.abs(to - from) - (flips ? 0 : 1);
      lengths[i] = 32 - Math.clz32(values[i]);
    }
  }
  return { marks, lengths, values };
}

/** Bits of a subset at the least, if its members lie anywhere. @param {number} members @param {number} things */
function subsetCost(members, things) {
  if (members === 0 || members === things) return 0;
  const share = members / things;
  return -things * (share * Math.log2(share) + (1 - share) * Math.log2(1 - share));
}

/**
 * What a class comes to, in bits, but for the digits of values, which cost the same in any class.
 * @param {Float64Array} counts of elements, items, items that flip, that go down, and of those in each layer
 */
function classCost(counts) {
  const [elements, items, flips, down] = counts;
  if (items === 0) return 16;
  let [cost, subsets, things] = [subsetCost(items, elements), 3, items];
  for (const mark of [flips, down]) cost += subsetCost(mark, items);
  for (let i = 4; i < counts.length && things > 0; i += 1) {
    cost += subsetCost(counts[i], things);
    subsets += 1;
    things = counts[i];
  }
  return cost + 8 * (1 + subsets);
}

/**
 * Last levels of classes: one for each level that there is, joined until there are few enough and no more joining
 * makes the row smaller.
 * @param {Map<number, Float64Array>} byLevel counts, by ascending level
 * @returns {number[]}
 */
function cutClasses(byLevel) {
  const groups = [...byLevel].map(([last, counts]) => ({ last, counts, cost: classCost(counts) }));
  const join = (/** @type {number} */ i) => {
    const [a, b] = groups.slice(i, i + 2);
    const counts = a.counts.map((count, k) => count + b.counts[k]);
    return { last: b.last, counts, cost: classCost(counts) };
  };
  const joined = groups.slice(1).map((_, i) => join(i));
  while (joined.length > 0) {
    let [best, gain] = [0, -Infinity];
    for (let i = 0; i < joined.length; i += 1) {
      const saved = groups[i].cost + groups[i + 1].cost - joined[i].cost;
      if (saved > gain) [best, gain] = [i, saved];
    }
    if (gain < 0 && groups.length <= MOST_CLASSES) break;
    groups.splice(best, 2, joined[best]);
    joined.splice(best, 1);
    for (const i of [best - 1, best]) if (i >= 0 && i < joined.length) joined[i] = join(i);
  }
  return [...groups.slice(0, -1).map(({ last }) => last), LEVELS - 1];
}

/**
 * Streams of a row.
 * @param {ArrayLike<number>} positions of the elements that differ
 * @param {Patterns} olds of the whole box
 * @param {Patterns} news of the whole box
 * @returns {import('./codecs.mjs').Streams}
 */
export function encodeRanked(positions, olds, news) {
  const width = olds.BYTES_PER_ELEMENT;
  const levels = new Levels(olds);
  const { marks, lengths, values } = changesOf(positions, olds, news);
  const counts = Array.from({ length: LEVELS }, () => new Float64Array(4 + 8 * width - 1));
  for (let i = 0; i < olds.length; i += 1) counts[levels.at(i)][0] += 1;
  for (let i = 0; i < positions.length; i += 1) {
    const own = counts[levels.at(positions[i])];
    own[1] += 1;
    if (marks[i] & FLIPS) own[2] += 1;
    if (marks[i] & DOWN) own[3] += 1;
    for (let length = 1; length <= lengths[i]; length += 1) own[3 + length] += 1;
  }
  const lasts = cutClasses(new Map([...counts.entries()].filter(([, own]) => own[0] > 0)));
  const classOf = new Uint8Array(LEVELS);
  lasts.forEach((last, i) => classOf.fill(i, i === 0 ? 0 : lasts[i - 1] + 1, last + 1));

  // Items by class: which of `positions`, and their places among the elements of the class.
  const sizes = new Uint32Array(lasts.length);
  const items = lasts.map(() => ({ own: /** @type {number[]} */ ([]), ranks: /** @type {number[]} */ ([]) }));
  for (let i = 0, count = 0; i < olds.length; i += 1) {
    const at = classOf[levels.at(i)];
    if (positions[count] === i) {
      items[at].own.push(count);
      items[at].ranks.push(sizes[at]);
      count += 1;
    }
    sizes[at] += 1;
  }

  const writer = new BitWriter();
  const classes = [lasts.length, ...lasts];
  const put = (/** @type {number} */ things, /** @type {ArrayLike<number>} */ members) => {
    const list = Uint32Array.from(members);
    const code = chooseCode(things, list);
    classes.push(code);
    writeSubset(writer, code, things, list);
  };
  /** Places in a list of the items that a test holds for. */
  const where = (/** @type {number[]} */ list, /** @type {(item: number) => boolean} */ holds) => {
    /** @type {number[]} */
    const places = [];
    for (let i = 0; i < list.length; i += 1) if (holds(list[i])) places.push(i);
    return places;
  };
  items.forEach(({ own, ranks }, at) => {
    put(sizes[at], ranks);
    if (own.length === 0) return;
    for (const mark of [FLIPS, DOWN]) {
      put(
        own.length,
        where(own, (i) => (marks[i] & mark) !== 0),
      );
    }
    let layer = own;
    for (let length = 1; length < 8 * width && layer.length > 0; length += 1) {
      const longer = where(layer, (i) => lengths[i] >= length);
      put(layer.length, longer);
      layer = longer.map((i) => layer[i]);
    }
    for (const i of own) {
      const digits = Math.max(0, lengths[i] - 1);
      if (values instanceof Uint32Array) writer.put(values[i] % 2 ** digits, digits);
      else {
        writer.put(Number(BigInt.asUintN(Math.min(32, digits), values[i])), Math.min(32, digits));
        if (digits > 32) writer.put(Number(BigInt.asUintN(digits - 32, values[i] >> 32n)), digits - 32);
      }
    }
  });
  return { classes: Uint8Array.from(classes), items: writer.finish() };
}
