// Bytes that no honest writer makes end in a code, or in success (ERR-2).
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { checkBox } from '../src/boxes.mjs';
import { decodeChange } from '../src/delta-step.mjs';
import { DeltawireError } from '../src/errors.mjs';
import { parseJson } from '../src/json.mjs';
import { DEFAULT_LIMITS, makeLimits } from '../src/limits.mjs';
import { readBatch } from '../src/part.mjs';
import { parseRecord } from '../src/records.mjs';
import { readShardHeader } from '../src/shard.mjs';
import { isSmallOrderKey } from '../src/signing-keys.mjs';
import { TensorTable } from '../src/table.mjs';
import { PartBuilder } from '../src/encoder.mjs';
import { code } from './helpers.mjs';
import { examples, hexBlock } from './spec.mjs';

const table = TensorTable.parse(examples('tensor_table')[0], DEFAULT_LIMITS);
const [zero, one] = examples('version').map((bytes) => parseRecord('version', bytes, DEFAULT_LIMITS));

/** @param {Uint8Array} bytes @param {() => unknown} work */
function endsInCode(bytes, work) {
  try {
    work();
  } catch (error) {
    if (!(error instanceof DeltawireError))
      throw new Error(`not a code, for ${Buffer.from(bytes).toString('hex')}`, { cause: error });
  }
}

test('every flipped byte of a batch', () => {
  const [part] = one.delta.parts;
  const [batch] = part.batches;
  const message = Uint8Array.from(hexBlock('part').subarray(batch.offset, batch.offset + batch.bytes));
  const held = {
    table,
    tensors: new Map([
      [0, new Uint8Array(64)],
      [1, new Uint8Array(6)],
    ]),
  };
  for (let i = 0; i < message.length; i += 1) {
    for (const flip of [1, 0x80, 0xff]) {
      const bytes = message.slice();
      bytes[i] ^= flip;
      endsInCode(bytes, () =>
        [...readBatch(bytes, batch, part.streams, table, DEFAULT_LIMITS)].map((row) =>
          decodeChange(row, /** @type {any} */ (held)),
        ),
      );
    }
  }
  for (let length = 0; length < message.length; length += 7) {
    assert.throws(
      () => readBatch(message.slice(0, length), batch, part.streams, table, DEFAULT_LIMITS),
      code('malformed_part'),
    );
  }
});

test('every flipped byte of a header and of a record', () => {
  const [shard] = zero.snapshot.shards;
  const header = hexBlock('shard').subarray(0, shard.header_bytes);
  for (let i = 0; i < header.length; i += 1) {
    for (const flip of [1, 4, 0x80]) {
      const bytes = Uint8Array.from(header);
      bytes[i] ^= flip;
      endsInCode(bytes, () => readShardHeader(bytes, shard, table, 32));
    }
  }
  for (const kind of ['version', 'span', 'stream', 'retention']) {
    const record = examples(kind).at(-1);
    for (let i = 0; i < record.length; i += 3) {
      const bytes = Uint8Array.from(record);
      bytes[i] ^= 1 << (i % 8);
      endsInCode(bytes, () => parseRecord(kind, bytes, DEFAULT_LIMITS));
    }
  }
});

/** A batch with one row. @param {object} row @param {string[]} [streams] */
function batchOf(row, streams) {
  const builder = new PartBuilder();
  const u8 = (/** @type {number[]} */ ...items) => Uint8Array.of(...items);
  builder.add(
    /** @type {any} */ ({
      tensor: 1,
      start: [0],
      extent: [3],
      elements: 3,
      codec: 'gap-set',
      changed: 1,
      before: 0n,
      after: 0n,
      streams: { positions: u8(1), value_0: u8(1), value_1: u8(2) },
      ...row,
    }),
  );
  const { bytes, descriptor } = builder.finish('k');
  const [batch] = descriptor.batches;
  return () => [
    ...readBatch(
      bytes.slice(batch.offset, batch.offset + batch.bytes),
      batch,
      streams ?? descriptor.streams,
      table,
      DEFAULT_LIMITS,
    ),
  ];
}

test('rows that cannot be', () => {
  const u8 = (/** @type {number[]} */ ...items) => Uint8Array.of(...items);
  assert.equal(batchOf({})().length, 1);
  const value = { value_0: u8(1), value_1: u8(2) };
  for (const row of [
    { tensor: 2 },
    { start: [1] },
    { extent: [0] },
    { start: [2n ** 63n], extent: [2n ** 63n] },
    { start: [], extent: [] },
    { changed: 0 },
    { changed: 4 },
    { changed: 2n ** 64n - 1n },
    { streams: { positions: u8(1) } },
    { streams: { ...value, positions: u8(1), diff_0: u8(1) } },
    { streams: { ...value, positions: u8(1), value_0: u8(1, 2) } },
  ]) {
    assert.throws(batchOf(row), code('malformed_row'));
  }
  assert.throws(batchOf({ codec: 'mask' }), code('unsupported_codec'));
  assert.throws(batchOf({ codec: 'toString' }), code('unsupported_codec'));
  assert.throws(batchOf({}, ['positions', 'value_0']), code('malformed_part'));
  assert.throws(() => checkBox([0], [2 ** 31], [2 ** 40]), code('malformed_row'));
});

test('a batch that expands too far', () => {
  const big = new Uint8Array(17 * 1024 * 1024);
  const wide = new TensorTable([{ name: 'w', dtype: 'U8', shape: [big.length] }], [], DEFAULT_LIMITS);
  const builder = new PartBuilder();
  builder.add({
    tensor: 0,
    start: [0],
    extent: [big.length],
    elements: big.length,
    codec: 'dense',
    changed: 1,
    before: 0n,
    after: 0n,
    streams: { value_0: big },
  });
  const { bytes, descriptor } = builder.finish('k');
  const [batch] = descriptor.batches;
  const message = bytes.slice(batch.offset, batch.offset + batch.bytes);
  assert.throws(() => readBatch(message, batch, descriptor.streams, wide, DEFAULT_LIMITS), code('limit_exceeded'));
  assert.equal(
    [...readBatch(message, batch, descriptor.streams, wide, makeLimits({ batch_expansion: 1e6 }))].length,
    1,
  );
});

test('JSON that is not I-JSON', () => {
  const read = (/** @type {string | Buffer} */ text) => () => parseJson(Buffer.from(text), 4);
  for (const text of [
    '',
    '[]',
    '1',
    '{',
    '{}x',
    '{"a":1,"\\u0061":2}',
    '{"a":01}',
    '{"a":+1}',
    '{"a":.5}',
    '{"a":1.}',
    '{"a":Infinity}',
    '{"a":"\t"}',
    '{"a":"\\x"}',
    '{"a":"\\ud800\\u0041"}',
    '{"a":"\\udc00\\ud800"}',
    "{'a':1}",
    '{"a":1,}',
    '{a:1}',
    '{"a":[1,]}',
    '\ufeff{}',
    Buffer.from([0x7b, 0x22, 0xff, 0x22, 0x3a, 0x31, 0x7d]),
    Buffer.from('{"a":"\xed\xa0\x80"}', 'latin1'),
  ]) {
    assert.throws(read(text), code('malformed_record'), String(text));
  }
  assert.throws(read('{"a":[[[[]]]]}'), code('limit_exceeded'));
  const value = parseJson(Buffer.from(' {"__proto__":1,"a":"\\ud83d\\ude00é","b":[true,null,-0,1e2]} '), 4);
  assert.deepEqual([value.__proto__, value.a, value.b[2], value.b[3].text], [1, '😀é', -0, '1e2']);
});

test('tables that cannot be', () => {
  const parse = (/** @type {any[]} */ tensors, /** @type {any[] | undefined} */ aliases) => () =>
    TensorTable.parse(
      Buffer.from(
        JSON.stringify({ protocol: 'deltawire', protocol_version: '0.1', kind: 'tensor_table', tensors, aliases }),
      ),
      DEFAULT_LIMITS,
    );
  const a = { name: 'a', dtype: 'U8', shape: [1] };
  parse([a], undefined)();
  for (const tensors of [
    [],
    [a, a],
    [{ ...a, name: '' }],
    [{ ...a, name: '__metadata__' }],
    [{ ...a, name: 'a\u202e' }],
    [{ ...a, dtype: 'F4' }],
    [{ ...a, shape: [-1] }],
  ]) {
    assert.throws(parse(tensors, undefined), code('malformed_record'));
  }
  for (const aliases of [
    [{ name: 'a', target: 'a' }],
    [{ name: 'b', target: 'c' }],
    [
      { name: 'b', target: 'a' },
      { name: 'c', target: 'b' },
    ],
  ]) {
    assert.throws(parse([a], aliases), code('malformed_record'));
  }
  assert.throws(parse([{ ...a, dtype: 'F17' }], undefined), code('unsupported_dtype'));
  for (const tensor of [
    { ...a, name: 'x'.repeat(1025) },
    { ...a, shape: new Array(17).fill(1) },
    { ...a, shape: [2 ** 45] },
    { ...a, shape: [2 ** 53 - 1, 2 ** 53 - 1] },
  ]) {
    assert.throws(parse([tensor], undefined), code('limit_exceeded'));
  }
});

test('public keys that anyone can sign for', () => {
  const key = (/** @type {string} */ hex) => `ed25519:${hex}`;
  const zeros = '0'.repeat(62);
  for (const hex of [
    `00${zeros}`,
    `01${zeros}`,
    `01${zeros.slice(2)}80`,
    `ec${'f'.repeat(60)}7f`,
    `ed${'f'.repeat(60)}7f`,
    `ee${'f'.repeat(60)}ff`,
  ]) {
    assert.ok(isSmallOrderKey(key(hex)), hex);
  }
  assert.ok(isSmallOrderKey(key('c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac037a')));
  assert.ok(!isSmallOrderKey(key('03a107bff3ce10be1d70dd18e74bc09967e4d6309ba50d5f1ddc8664125531b8')));
});
