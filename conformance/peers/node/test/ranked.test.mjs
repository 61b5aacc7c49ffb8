// The codec `ranked` (sections 9.6 and 9.7), and the feature of that name.
import assert from 'node:assert/strict';
import { readdir, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { test } from 'node:test';
import { BitReader, BitWriter } from '../src/bits.mjs';
import { BoxMap } from '../src/boxes.mjs';
import { decodeRow, digestCovered, encodeRow } from '../src/codecs.mjs';
import { Consumer } from '../src/consumer.mjs';
import { prepareDelta } from '../src/delta-step.mjs';
import { digestOf } from '../src/digest.mjs';
import { DTYPES, dtypeOf, storageShape } from '../src/dtypes.mjs';
import { encodeTensor, PartBuilder } from '../src/encoder.mjs';
import { DeltawireError, isCode } from '../src/errors.mjs';
import { DEFAULT_LIMITS } from '../src/limits.mjs';
import { build } from '../src/maintainer.mjs';
import { readBatch } from '../src/part.mjs';
import { newPatterns, patterns } from '../src/patterns.mjs';
import { ReaderPin } from '../src/pin.mjs';
import { openForWriting, Producer } from '../src/producer.mjs';
import { encodeRanked } from '../src/ranked.mjs';
import { fork } from '../src/revisit.mjs';
import { FileStore } from '../src/store-file.mjs';
import { chooseCode, readSubset, writeSubset } from '../src/subsets.mjs';
import { TensorTable } from '../src/table.mjs';
import { formatHex, u64Add, u64Sub } from '../src/u64.mjs';
import { code, folder, put } from './helpers.mjs';

const RANKED = { reader_features: ['ranked'], writer_features: ['ranked'] };
const PLAIN = { reader_features: [], writer_features: [] };

/** Numbers from 0 to below 1 that repeat from run to run. @param {number} seed */
function random(seed) {
  let x = seed >>> 0;
  return () => {
    x = (x + 0x6d2b79f5) >>> 0;
    let y = Math.imul(x ^ (x >>> 15), x | 1);
    y ^= y + Math.imul(y ^ (y >>> 7), y | 61);
    return ((y ^ (y >>> 14)) >>> 0) / 2 ** 32;
  };
}

/** @param {number} length @param {() => number} next */
const noise = (length, next) => new Uint8Array(length).map(() => 256 * next());

/** bf16 weights, and the same after a small step. @param {number} count @param {() => number} next */
function step(count, next) {
  const weights = Float32Array.from({ length: count }, () => Math.exp(3 * next() - 6) * (next() < 0.5 ? -1 : 1));
  const bf16 = (/** @type {Float32Array} */ values) => {
    const words = new Uint32Array(values.buffer);
    return new Uint8Array(Uint16Array.from(words, (word) => (word + 0x8000) >>> 16).buffer);
  };
  return [bf16(weights), bf16(weights.map((weight) => weight + 1e-4 * (next() - 0.5)))];
}

/**
 * Encodes a box of one dimension of which all elements are there, and decodes it.
 * @param {import('../src/patterns.mjs').Patterns} olds
 * @param {import('../src/patterns.mjs').Patterns} news
 */
function around(olds, news) {
  const positions = [...olds.keys()].filter((i) => olds[i] !== news[i]);
  const streams = encodeRanked(positions, olds, news);
  const map = new BoxMap([0], [olds.length], [olds.length]);
  const decoded = decodeRow('ranked', dtypeOf('U8'), positions.length, olds.length, streams, map, olds);
  assert.deepEqual([...(decoded.positions ?? [])], positions);
  const got = olds.slice();
  decoded.positions?.forEach((at, i) => {
    assert.equal(decoded.before[i], olds[at]);
    got[at] = decoded.after[i];
  });
  assert.deepEqual(got, news);
  return streams;
}

test('subsets of any share go around, in every code', () => {
  const next = random(1);
  for (let run = 0; run < 400; run += 1) {
    const things = Math.floor(10 ** (4 * next())) - (run % 7 === 0 ? 1 : 0);
    const share = next() ** 3;
    const members = new Uint32Array(things).map((_, i) => i).filter(() => next() < share);
    const codes = [chooseCode(things, members), Math.floor(64 * next()), 128];
    for (const byte of codes) {
      const writer = new BitWriter();
      writeSubset(writer, byte, things, members);
      const reader = new BitReader(writer.finish());
      assert.deepEqual(readSubset(reader, byte, things), members, `${byte} of ${things}`);
      reader.end();
    }
  }
});

test('a gap just below and at the longer form', () => {
  for (const [gap, bits] of [
    [24 * 8 - 1, 24 + 3],
    [24 * 8, 56],
    [2 ** 31 - 2, 56],
  ]) {
    const writer = new BitWriter();
    writeSubset(writer, 3, gap + 1, Uint32Array.of(gap));
    assert.equal(writer.length, bits + 4);
    assert.deepEqual([...readSubset(new BitReader(writer.finish()), 3, gap + 1)], [gap]);
  }
});

test('random states of every width', () => {
  const next = random(2);
  for (let run = 0; run < 240; run += 1) {
    const width = [1, 2, 4, 8][run % 4];
    const count = 1 + Math.floor(300 * next());
    const old = noise(count * width, next);
    const now = old.slice();
    const share = next();
    for (let i = 0; i < count; i += 1) {
      if (next() >= share) continue;
      const kind = next();
      if (kind < 0.3) now.set(noise(width, next), i * width);
      else if (kind < 0.5) now[(i + 1) * width - 1] ^= 0x80;
      else now[i * width] ^= 1 << (8 * next());
    }
    around(patterns(old, width), patterns(now, width));
  }
});

test('from one end of the magnitudes to the other', () => {
  for (const width of [1, 2, 4, 8]) {
    const top = 1n << BigInt(8 * width - 1);
    const ends = [0n, 1n, top - 1n, top, top + 1n, 2n * top - 1n];
    const [olds, news] = [newPatterns(36, width), newPatterns(36, width)];
    for (let i = 0; i < 36; i += 1) {
      olds[i] = width === 8 ? ends[i % 6] : Number(ends[i % 6]);
      news[i] = width === 8 ? ends[Math.floor(i / 6)] : Number(ends[Math.floor(i / 6)]);
    }
    around(olds, news);
  }
});

test('a small step of training is smaller than by `gap`', () => {
  const [old, now] = step(200000, random(3));
  const table = new TensorTable([{ name: 'w', dtype: 'BF16', shape: [400, 500] }], [], DEFAULT_LIMITS);
  const size = (/** @type {any} */ features, /** @type {string} */ codec) => {
    const [row] = encodeTensor(0, table.tensors[0], old, now, features);
    assert.equal(row.codec, codec);
    const builder = new PartBuilder();
    builder.add(row);
    return { bytes: builder.finish('k').bytes.length, row };
  };
  const [ranked, gap] = [size(RANKED, 'ranked'), size(PLAIN, 'gap')];
  assert.ok(ranked.bytes < 0.8 * gap.bytes, `${ranked.bytes} and ${gap.bytes}`);
  assert.ok(ranked.row.streams.classes[0] > 1);
});

test('boxes of any shape, of every dtype', () => {
  const next = random(4);
  for (const dtype of DTYPES.values()) {
    for (let run = 0; run < 6; run += 1) {
      const extents = Array.from({ length: 1 + (run % 3) }, () => 4 * (1 + Math.floor(4 * next())));
      const shape = storageShape(dtype, extents);
      const start = shape.map((extent) => Math.floor(extent * next()));
      const extent = shape.map((all, i) => 1 + Math.floor((all - start[i]) * next()));
      const elements = extent.reduce((a, b) => a * b, 1);
      const held = patterns(noise(shape.reduce((a, b) => a * b, 1) * dtype.width, next), dtype.width);
      const map = new BoxMap(start, extent, shape);
      const olds = newPatterns(elements, dtype.width);
      for (let i = 0; i < elements; i += 1) olds[i] = held[map.flat(i)];
      const news = olds.slice();
      new Uint8Array(news.buffer).forEach((byte, i, bytes) => (bytes[i] = next() < 0.2 ? byte + 1 : byte));
      const positions = [...olds.keys()].filter((i) => olds[i] !== news[i]);
      if (positions.length === 0) continue;
      const streams = encodeRanked(positions, olds, news);
      const decoded = decodeRow('ranked', dtype, positions.length, elements, streams, map, held);
      assert.deepEqual([...(decoded.positions ?? [])], positions);
      positions.forEach((at, i) => assert.equal(decoded.after[i], news[at]));
    }
  }
});

/**
 * Decodes a row of bytes.
 * @param {number[]} old
 * @param {number} changed
 * @param {string} classes
 * @param {string} items
 */
const decodeBytes = (old, changed, classes, items) =>
  decodeRow(
    'ranked',
    dtypeOf('U8'),
    changed,
    old.length,
    { classes: Uint8Array.from(Buffer.from(classes, 'hex')), items: Uint8Array.from(Buffer.from(items, 'hex')) },
    new BoxMap([0], [old.length], [old.length]),
    Uint8Array.from(old),
  );

test('rows that cannot be', () => {
  const old = [0x05, 0x00, 0x7f, 0x85];
  for (const [changed, classes, items, after] of /** @type {[number, string, string, number[]][]} */ ([
    [1, '01ff80404040', '01', [0x06]],
    [1, '01ff80604040', '08', [0x05]], // a flip alone
    [4, '01ff60604040', '', [0x85, 0x80, 0xff, 0x05]],
    [1, '030405ff408040404040', '01', [0x06]], // a class without items ends at once
    [1, '04040506ff40804040406040', '01', [0x06]], // and so does one without elements, of which these are all
    [1, '04040506ff40804040408040', '01', [0x06]],
    [1, '04040506ff40804040400040', '01', [0x06]], // or one in a list, whose end is 1 bit
  ])) {
    assert.deepEqual([...decodeBytes(old, changed, classes, items).after], after, classes);
  }
  for (const [changed, classes, items, why] of /** @type {[number, string, string, string][]} */ ([
    [1, '', '', 'no number of classes'],
    [1, '00', '', 'no class'],
    [1, '11000102030405060708090a0b0c0d0e0fff', '', '17 classes'],
    [1, '02ff', '', 'a last level is missing'],
    [1, '01fe80404040', '01', 'the last level is not 255'],
    [1, '017f80404040', '01', 'the last level that bytes can have is not 255'],
    [1, '02ffff8040404040', '01', 'last levels that do not ascend'],
    [1, '03050500ff8040404040', '01', 'last levels that descend'],
    [1, '01ff804040', '01', 'a code is missing'],
    [1, '01ff8040404040', '01', 'a code is left'],
    [1, '01ff80404040', '0100', 'a byte is left'],
    [1, '01ff80404040', '11', 'padding that is not 0'],
    [1, '01ff80404040', '', 'bits are missing'],
    [2, '01ff80404040', '01', 'fewer items than changed'],
    [1, '01ff80404040', '03', 'more items than changed'],
    [1, '01ff60404040', '', 'more items than changed, by all'],
    [1, '01ff20404040', '03', 'more items than changed, by all but a list'],
    [1, '01ff80604060', '', 'bits are missing for layers'],
    [1, '01ff80606040', '01', 'down by nothing'],
    [1, '01ff80406040', '02', 'down from 0'],
    [1, '01ff80404040', '04', 'up from the largest'],
    [1, '01ff8041', '01', 'no such code'],
  ])) {
    assert.throws(() => decodeBytes(old, changed, classes, items), code('malformed_row'), why);
  }
});

test('layers end with 8w - 1', () => {
  // 0x00 -> 0xff: a flip and 127, of 7 digits, so that 7 layers are all there are.
  const classes = '01ff60604060606060606060';
  assert.deepEqual([...decodeBytes([0], 1, classes, '3f').after], [0xff]);
  assert.throws(() => decodeBytes([0], 1, `${classes}40`, '3f'), code('malformed_row'));
  assert.throws(() => decodeBytes([0], 1, classes.replace('606040', '604040'), '3f'), code('malformed_row')); // 128
  assert.deepEqual([...around(Uint8Array.of(0), Uint8Array.of(0xff)).classes].length, 12);
});

test('streams that were changed anywhere end in a code, or in success', () => {
  const next = random(5);
  for (let run = 0; run < 6000; run += 1) {
    const width = [1, 2, 4, 8][run % 4];
    const count = 1 + Math.floor(40 * next());
    const old = patterns(noise(count * width, next), width);
    const now = patterns(
      new Uint8Array(old.slice().buffer).map((byte) => (next() < 0.2 ? 256 * next() : byte)),
      width,
    );
    const positions = [...old.keys()].filter((i) => old[i] !== now[i]);
    const streams = encodeRanked(positions, old, now);
    let changed = positions.length || 1;
    if (next() < 0.1) changed = 1 + Math.floor(count * next());
    for (let i = 0; i < 1 + (run % 3); i += 1) {
      const name = next() < 0.6 ? 'classes' : 'items';
      const bytes = streams[name];
      const kind = next();
      if (kind < 0.15) streams[name] = bytes.slice(0, bytes.length * next());
      else if (kind < 0.3) streams[name] = Uint8Array.from([...bytes, ...noise(1 + 4 * next(), next)]);
      else if (bytes.length > 0) {
        const known = [0, 1, 31, 32, 33, 63, 64, 96, 128, 255];
        const byte = kind < 0.6 ? 256 * next() : known[Math.floor(known.length * next())];
        bytes[Math.floor(bytes.length * next())] = byte;
      }
    }
    try {
      const map = new BoxMap([0], [count], [count]);
      const decoded = decodeRow('ranked', dtypeOf('U8'), changed, count, streams, map, old);
      for (let i = 0; i < changed; i += 1) assert.notEqual(decoded.after[i], decoded.before[i]);
    } catch (error) {
      if (!(error instanceof DeltawireError && error.code === 'malformed_row')) throw error;
    }
  }
});

test('every flipped byte of a batch', () => {
  const next = random(6);
  const table = new TensorTable(
    [
      { name: 'a', dtype: 'BF16', shape: [12, 10] },
      { name: 'b', dtype: 'F64', shape: [9] },
    ],
    [],
    DEFAULT_LIMITS,
  );
  const builder = new PartBuilder();
  const olds = new Map(table.tensors.map(({ bytes }, i) => [i, noise(bytes, next)]));
  for (const [i, old] of olds) {
    const now = old.map((byte) => (next() < 0.1 ? byte ^ 1 : byte));
    for (const row of encodeTensor(i, table.tensors[i], old, now, RANKED)) builder.add(row);
  }
  const { bytes, descriptor } = builder.finish('k');
  const [batch] = descriptor.batches;
  const message = bytes.slice(batch.offset, batch.offset + batch.bytes);
  const read = (/** @type {Uint8Array} */ one) => {
    for (const row of readBatch(one, batch, descriptor.streams, table, DEFAULT_LIMITS)) {
      const { dtype, shape } = table.tensors[row.tensor];
      const held = patterns(/** @type {Uint8Array} */ (olds.get(row.tensor)), dtype.width);
      const map = new BoxMap(row.start, row.extent, storageShape(dtype, shape));
      decodeRow(row.codec, dtype, row.changed, row.elements, row.streams, map, held);
    }
  };
  assert.deepEqual(descriptor.streams, ['classes', 'items']);
  read(message.slice());
  for (let i = 0; i < message.length; i += 1) {
    for (const flip of [1, 0x10, 0xff]) {
      const one = message.slice();
      one[i] ^= flip;
      try {
        read(one);
      } catch (error) {
        if (!(error instanceof DeltawireError)) throw error;
      }
    }
  }
});

/** Rows of a tensor of 8 bytes, and what comes of a delta of such rows. @param {import('node:test').TestContext} t */
async function eightBytes(t) {
  const store = new FileStore(await folder(t));
  const table = new TensorTable([{ name: 'a', dtype: 'U8', shape: [8] }], [], DEFAULT_LIMITS);
  const [{ seed }] = table.tensors;
  const old = Uint8Array.of(1, 2, 3, 4, 5, 6, 7, 8);
  const now = Uint8Array.of(2, 3, 4, 5, 6, 7, 8, 7);
  /** A row that changes one element. @type {(from: number, to: number, at: number, codec?: string) => any} */
  const row = (from, to, at, codec = 'ranked') => {
    const [olds, news] = [old.slice(from, to), old.slice(from, to)];
    news[at - from] = now[at];
    const map = new BoxMap([from], [to - from], [8]);
    return {
      tensor: 0,
      start: [from],
      extent: [to - from],
      elements: to - from,
      codec,
      changed: 1,
      before: digestCovered(seed, map, [at - from], old.subarray(at, at + 1)),
      after: digestCovered(seed, map, [at - from], now.subarray(at, at + 1)),
      streams:
        codec === 'ranked'
          ? encodeRanked([at - from], olds, news)
          : encodeRow(codec, dtypeOf('U8'), [at - from], old.slice(at, at + 1), now.slice(at, at + 1)),
    };
  };
  /** What should be held, and the same with another last byte. @type {(drift: number) => any} */
  const held = (drift) => {
    const bytes = old.slice();
    bytes[7] ^= drift;
    return { table, tensors: new Map([[0, bytes]]), digest: digestOf(seed, old, 1) };
  };
  const read = async (/** @type {any[]} */ rows, drift = 0) => {
    const builder = new PartBuilder();
    for (const one of rows) builder.add(one);
    const { bytes, descriptor } = builder.finish('part');
    await put(store.root, 'part', bytes);
    const sum = (/** @type {'before' | 'after'} */ side) => rows.reduce((total, one) => u64Add(total, one[side]), 0n);
    const delta = {
      changed_elements: rows.length,
      digest_before: formatHex(sum('before')),
      digest_after: formatHex(sum('after')),
      parts: [descriptor],
    };
    const digest = formatHex(u64Sub(u64Add(digestOf(seed, old, 1), sum('after')), sum('before')));
    return prepareDelta(store, delta, digest, held(drift), DEFAULT_LIMITS);
  };
  return { row, read };
}

test('boxes of more elements than the tensor', async (t) => {
  const { row, read } = await eightBytes(t);
  assert.equal((await read([row(0, 4, 0), row(4, 8, 7)])).changes.length, 2);
  assert.equal((await read([row(0, 5, 0), row(5, 8, 7)])).changes.length, 2);
  await assert.rejects(read([row(0, 5, 0), row(4, 8, 7)]), code('malformed_row'));
  await assert.rejects(read([row(0, 8, 0), row(7, 8, 7)]), code('malformed_row'));
});

test('a row that cannot be, and bits held that are not the base', async (t) => {
  const { row, read } = await eightBytes(t);
  const broken = (/** @type {any} */ one) => ({ ...one, streams: { ...one.streams, items: Uint8Array.of(1, 2, 3, 4) } });
  const outside = (/** @type {any} */ one) => ({ ...one, start: [9] });
  const counted = (/** @type {any} */ one) => ({ ...one, changed: 2 });
  const gap = row(0, 4, 0, 'gap');
  for (const rows of [
    [broken(row(0, 4, 0))],
    [gap, broken(row(4, 7, 4))],
    [outside(row(0, 4, 0))], // ROW-1
    [counted(row(0, 4, 0))], // RNK-3
    [row(0, 5, 0), row(3, 7, 3)], // RNK-5
    [row(0, 4, 0), row(0, 4, 0)], // ROW-4
    [gap, row(0, 4, 0)],
    [row(4, 7, 4), row(0, 4, 0), gap],
  ]) {
    await assert.rejects(read(rows), code('malformed_row'));
    await assert.rejects(read(rows, 1), code('wrong_base'));
  }
  // What other codecs have is not looked after.
  for (const rows of [
    [outside(gap)],
    [counted(gap)],
    [gap, gap],
    [row(1, 5, 4), gap, gap],
  ]) {
    for (const drift of [0, 1]) await assert.rejects(read(rows, drift), code('malformed_row'));
  }
});

/** Codecs of the rows of the version held, by dtype. @param {FileStore} store @param {Consumer} consumer */
async function codecsOf(store, { held }) {
  /** @type {Record<string, string>} */
  const found = {};
  const { table, read } = /** @type {import('../src/state.mjs').Held} */ (held);
  for (const part of read.record.delta.parts) {
    const bytes = Uint8Array.from(await readFile(join(store.root, part.key)));
    for (const batch of part.batches) {
      const message = bytes.slice(batch.offset, batch.offset + batch.bytes);
      for (const row of readBatch(message, batch, part.streams, table, DEFAULT_LIMITS))
        found[table.tensors[row.tensor].dtype.name] = row.codec;
    }
  }
  return found;
}

/** @param {number} n */
const stateOf = (n) => ({
  tensors: [
    { name: 'a', dtype: 'BF16', shape: [40, 10], bytes: noise(800, random(7)) },
    { name: 'b', dtype: 'I16', shape: [400], bytes: noise(800, random(8)) },
  ].map((tensor) => {
    for (let i = 0; i < n; i += 1) tensor.bytes[20 * i] += 1;
    return tensor;
  }),
});

test('a stream with the feature, and what is written to it', async (t) => {
  const store = new FileStore(await folder(t));
  const first = await Producer.open(store, { ranked: true });
  await first.publish(stateOf(0));
  await first.publish(stateOf(1));
  await first.close();
  const again = await Producer.open(store);
  for (const n of [2, 3, 4]) await again.publish(stateOf(n));
  const pin = new ReaderPin(store, { holder: 'me', ttlMs: 60000 });
  const consumer = new Consumer(store, { pin });
  await consumer.update();
  consumer.verify();
  assert.deepEqual(await codecsOf(store, consumer), { BF16: 'ranked', I16: 'gap' });
  const reader = await openForWriting(store, {}, DEFAULT_LIMITS);
  const added = await build(reader);
  assert.ok(added.anchors.length > 0 && added.spans.length > 0);
  let records = 0;
  for (const place of ['', 'versions', 'anchors', 'spans', 'leases', 'leases/readers']) {
    for (const name of await readdir(join(store.root, place))) {
      if (!name.endsWith('.json')) continue;
      const record = JSON.parse(await readFile(join(store.root, place, name), 'utf8'));
      assert.deepEqual([record.reader_features, record.writer_features], [['ranked'], ['ranked']], record.kind);
      records += 1;
    }
  }
  assert.ok(records >= 2 + 5 + added.anchors.length + added.spans.length + 2);
  await pin.release();
  const behind = new Consumer(store);
  for (const version of [0, 1, 4]) assert.equal(await behind.update(version), version);
  behind.verify();
  await again.close();

  const copy = new FileStore(await folder(t));
  await fork(store, 3, copy, {});
  const line = await Producer.open(copy, { ranked: true });
  await line.publish(stateOf(4));
  const follower = new Consumer(copy);
  await follower.update();
  assert.equal((await codecsOf(copy, follower)).BF16, 'ranked');
  await line.close();
});

test('streams without the feature, or without a base', async (t) => {
  const plain = new FileStore(await folder(t));
  const producer = await Producer.open(plain);
  await producer.publish(stateOf(0));
  await producer.publish(stateOf(1));
  await producer.close();
  await assert.rejects(Producer.open(plain, { ranked: true }), code('invalid_argument'));
  const consumer = new Consumer(plain);
  await consumer.update();
  assert.deepEqual(await codecsOf(plain, consumer), { BF16: 'gap', I16: 'gap' });

  const absolute = new FileStore(await folder(t));
  const other = await Producer.open(absolute, { absolute: true });
  await other.publish(stateOf(0));
  await other.close();
  const ranked = new FileStore(await folder(t));
  const third = await Producer.open(ranked, { ranked: true });
  await third.publish(stateOf(0));
  await third.close();
  const nothing = new FileStore(await folder(t));
  const demand = { ranked: true, absolute: true };
  for (const store of [plain, absolute, ranked, nothing])
    await assert.rejects(Producer.open(store, demand), code('invalid_argument'));
  assert.deepEqual(await readdir(nothing.root), []);
  await assert.rejects(Producer.open(absolute, { ranked: true }), code('invalid_argument'));
  await assert.rejects(Producer.open(ranked, { absolute: true }), code('invalid_argument'));

  // A fork has the features of its source, and `absolute` if its caller adds that: then COD-2 decides.
  await assert.rejects(fork(plain, 0, nothing, { ranked: true }), code('invalid_argument'));
  await assert.rejects(fork(ranked, 0, nothing, demand), code('invalid_argument'));
  assert.deepEqual(await readdir(nothing.root), []);
  const both = new FileStore(await folder(t));
  await fork(ranked, 0, both, { absolute: true });
  for (const [n, options] of /** @type {[number, object][]} */ ([
    [1, {}],
    [2, { absolute: true }],
    [3, { ranked: true }],
  ])) {
    const writer = await Producer.open(both, options);
    await writer.publish(stateOf(n));
    await writer.close();
    const reader = new Consumer(both);
    await reader.update();
    assert.deepEqual(await codecsOf(both, reader), { BF16: 'gap-set', I16: 'gap-set' });
    const { reader_features: known, writer_features: features } = /** @type {any} */ (reader.held).read.record;
    assert.deepEqual([known, [...features].sort()], [['ranked'], ['absolute', 'ranked']]);
  }
});

test('bits held that were flipped are never `malformed_row`', async (t) => {
  const store = new FileStore(await folder(t));
  const next = random(9);
  const [old, now] = step(1500, next);
  /** A state of every width. @type {(from: Uint8Array) => any} */
  const state = (from) => ({
    tensors: ['BF16', 'F8_E4M3', 'F32', 'F64', 'I16'].map((dtype) => {
      const { width } = dtypeOf(dtype);
      return { name: dtype, dtype, shape: [3000 / width], bytes: from.slice() };
    }),
  });
  const producer = await Producer.open(store, { ranked: true });
  await producer.publish(state(old));
  await producer.publish(state(now));
  await producer.close();
  const consumer = new Consumer(store);
  await consumer.update();
  const { delta, state_digest: digest } = /** @type {any} */ (consumer.held).read.record;
  assert.deepEqual(await codecsOf(store, consumer), {
    BF16: 'ranked',
    F8_E4M3: 'ranked',
    F32: 'ranked',
    F64: 'ranked',
    I16: 'gap',
  });

  for (const names of [null, ['F32', 'BF16']]) {
    const base = new Consumer(store, { tensors: names });
    await base.update(0);
    const held = /** @type {import('../src/state.mjs').Held} */ (base.held);
    const found = { success: 0, undecodable: 0, other: 0 };
    for (let run = 0; run < 300; run += 1) {
      const tensors = new Map([...held.tensors].map(([ordinal, bytes]) => [ordinal, bytes.slice()]));
      const all = [...tensors.values()];
      for (let i = 0; i < 1 + (run % 5); i += 1) {
        const bytes = all[Math.floor(all.length * next())];
        bytes[Math.floor(bytes.length * next())] ^= 1 << (8 * next());
      }
      const flipped = new Map([...tensors].map(([ordinal, bytes]) => [ordinal, bytes.slice()]));
      try {
        await prepareDelta(store, delta, digest, { ...held, tensors }, DEFAULT_LIMITS);
        found.success += 1;
      } catch (error) {
        if (!isCode(error, 'wrong_base')) throw error;
        found[isCode(/** @type {any} */ (error).cause, 'malformed_row') ? 'undecodable' : 'other'] += 1;
      }
      assert.deepEqual(tensors, flipped);
    }
    assert.ok(Math.min(...Object.values(found)) > 10, JSON.stringify(found));
  }

  // A reader is told, and holds what it held.
  const reader = new Consumer(store);
  await reader.update(0);
  const mine = /** @type {import('../src/state.mjs').Held} */ (reader.held);
  for (const bytes of mine.tensors.values()) bytes.fill(0x3c);
  await assert.rejects(reader.update(), code('wrong_base'));
  assert.equal(reader.version, 0);
});

test('a reader that wants some of the tensors', async (t) => {
  const store = new FileStore(await folder(t));
  const producer = await Producer.open(store, { ranked: true });
  for (const n of [0, 1, 2]) await producer.publish(stateOf(n));
  await producer.close();
  for (const name of ['a', 'b']) {
    const consumer = new Consumer(store, { tensors: [name] });
    for (const version of [0, 1, 2]) await consumer.update(version);
    consumer.verify();
    const [[, bytes]] = /** @type {import('../src/state.mjs').Held} */ (consumer.held).tensors;
    assert.deepEqual(bytes, stateOf(2).tensors.find((tensor) => tensor.name === name)?.bytes);
  }
});
