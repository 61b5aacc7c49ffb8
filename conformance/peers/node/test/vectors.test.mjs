// The vectors of appendix A.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { BitReader, BitWriter } from '../src/bits.mjs';
import { BoxMap } from '../src/boxes.mjs';
import * as codecs from '../src/codecs.mjs';
import { digestOf, DigestSum, elements, Seed } from '../src/digest.mjs';
import { DTYPES, dtypeOf } from '../src/dtypes.mjs';
import { anchorKey, isFileName, isKey, numberInKey, versionKey } from '../src/keys.mjs';
import { DEFAULT_LIMITS } from '../src/limits.mjs';
import { readBatch } from '../src/part.mjs';
import { patterns } from '../src/patterns.mjs';
import { encodeRanked } from '../src/ranked.mjs';
import { sha256Of } from '../src/reader.mjs';
import { parseRecord } from '../src/records.mjs';
import { readShardHeader, writeShardHeader } from '../src/shard.mjs';
import { checkSignature, Signer } from '../src/signatures.mjs';
import { chooseCode, readSubset, writeSubset } from '../src/subsets.mjs';
import { TensorTable } from '../src/table.mjs';
import { formatHex, u64Add, u64Sub } from '../src/u64.mjs';
import { block, examples, hexBlock, SPEC, vectors } from './spec.mjs';

/** @param {string} hex */
const seedOf = (hex) => new Seed(parseInt(hex.slice(0, 8), 16), parseInt(hex.slice(8), 16));
/** @param {string} hex @returns {Uint8Array} in a buffer of its own */
const bytesOf = (hex) => Uint8Array.from(Buffer.from(hex, 'hex'));
/** @param {string} hex a number @param {number} width @returns {Uint8Array} */
const numberBytes = (hex, width) => Uint8Array.from(Buffer.from(hex.padStart(2 * width, '0'), 'hex').reverse());
/** @param {string} code */
const code = (code) => (/** @type {any} */ error) => error.code === code;
const hex = (/** @type {Uint8Array} */ bytes) => Buffer.from(bytes).toString('hex');

const EXAMPLE = {
  stream: examples('stream')[0],
  versions: examples('version'),
  anchor: examples('anchor')[0],
  table: examples('tensor_table')[0],
};

test('dtypes are those of the registry', () => {
  const rows = SPEC.slice(SPEC.indexOf('<!-- table: dtypes -->')).split('\n').slice(3);
  const listed = rows
    .slice(
      0,
      rows.findIndex((row) => !row.startsWith('|')),
    )
    .map((row) => row.replace(/[|`]/g, ' ').trim().split(/\s+/));
  assert.equal(listed.length, DTYPES.size);
  for (const [name, bits, width, order] of listed) {
    const dtype = dtypeOf(name);
    assert.deepEqual([dtype.bits, dtype.width, dtype.float], [Number(bits), Number(width), order === 'float'], name);
  }
});

test('A.1 seeds', () => {
  for (const { name, dtype, shape, seed } of vectors('seeds')) {
    assert.equal(formatHex(Seed.of(name, dtype, JSON.parse(shape)).toBigInt()), seed);
  }
});

test('A.2 contributions', () => {
  for (const { seed, index, bits, contribution } of vectors('contributions')) {
    const sum = new DigestSum();
    const pattern = BigInt(`0x${bits}`);
    sum.add(seedOf(seed), Number(index), Number(pattern >> 32n), Number(pattern & 0xffffffffn));
    assert.equal(formatHex(sum.value()), contribution);
  }
});

test('A.3 digests of tensors', () => {
  for (const { name, dtype, shape, bytes, digest } of vectors('tensor digests')) {
    const seed = Seed.of(name, dtype, JSON.parse(shape));
    assert.equal(formatHex(digestOf(seed, bytesOf(bytes), dtypeOf(dtype).width)), digest);
  }
});

test('A.4 a digest summed in shards', () => {
  const [first] = vectors('tensor digests');
  const seed = Seed.of(first.name, first.dtype, JSON.parse(first.shape));
  const all = elements(bytesOf(first.bytes), 4);
  for (const { box_start: start, box_shape: extent, 'flat indices': flat, share } of vectors('sharded')) {
    const map = new BoxMap(JSON.parse(start), JSON.parse(extent), JSON.parse(first.shape));
    const indices = JSON.parse(flat);
    const sum = new DigestSum();
    indices.forEach((/** @type {number} */ index, /** @type {number} */ position) => {
      assert.equal(map.flat(position), index);
      sum.add(seed, index, 0, all[index]);
    });
    assert.equal(formatHex(sum.value()), share);
  }
});

test('A.5 a digest updated', () => {
  const [first] = vectors('tensor digests');
  const seed = Seed.of(first.name, first.dtype, JSON.parse(first.shape));
  const value = Object.fromEntries(vectors('update').map((row) => [row.quantity, row.value]));
  const bytes = bytesOf(first.bytes);
  const all = patterns(bytes, 4);
  const map = new BoxMap([0, 0], [2, 3], [2, 3]);
  const covered = () =>
    codecs.digestCovered(
      seed,
      map,
      [1, 3],
      patterns(Uint8Array.from([...bytes.slice(4, 8), ...bytes.slice(12, 16)]), 4),
    );
  const before = covered();
  all[1] = parseInt(value['new bits at index 1'], 16);
  all[3] = parseInt(value['new bits at index 3'], 16);
  const after = covered();
  assert.equal(formatHex(before), value.digest_before);
  assert.equal(formatHex(after), value.digest_after);
  const old = BigInt(`0x${value['digest of the old tensor']}`);
  assert.equal(formatHex(u64Sub(u64Add(old, after), before)), value['digest of the new tensor']);
  assert.equal(formatHex(digestOf(seed, bytes, 4)), value['digest of the new tensor']);
});

test('A.6 positions', () => {
  for (const { elements: count, positions, stream } of vectors('positions')) {
    const list = JSON.parse(positions);
    assert.equal(hex(codecs.encodePositions(list)), stream);
    assert.deepEqual([...codecs.decodePositions(bytesOf(stream), list.length, Number(count))], list);
  }
  for (const { stream, elements: count, changed } of vectors('bad positions')) {
    assert.throws(
      () => codecs.decodePositions(bytesOf(stream), Number(changed), Number(count)),
      code('malformed_row'),
      stream,
    );
  }
});

test('A.7 ordered values', () => {
  for (const { dtype, bits, ordered } of vectors('ordered')) {
    assert.equal(codecs.orderedValue(dtypeOf(dtype), BigInt(`0x${bits}`)), BigInt(ordered), `${dtype} ${bits}`);
  }
});

test('A.8 differences', () => {
  for (const row of vectors('differences')) {
    const dtype = dtypeOf(row.dtype);
    const [before, after] = [row.old, row.new].map((bits) =>
      patterns(numberBytes(bits, dtype.width), dtype.width),
    );
    const streams = codecs.encodeDifferences(dtype, before, after);
    assert.equal(streams.signs[0], Number(row['sign bit']));
    const planes = Array.from({ length: dtype.width }, (_, i) => hex(streams[`diff_${i}`])).join('');
    assert.equal(planes, row['planes, least significant first']);
    assert.deepEqual(codecs.decodeDifferences(dtype, streams, before), after);
  }
  for (const [sign, planes] of [
    [0, 'ff7f'],
    [0, '0080'],
    [1, '0080'],
  ]) {
    const streams = {
      signs: Uint8Array.of(Number(sign)),
      diff_0: bytesOf(String(planes).slice(0, 2)),
      diff_1: bytesOf(String(planes).slice(2)),
    };
    assert.throws(() => codecs.decodeDifferences(dtypeOf('BF16'), streams, new Uint16Array(1)), code('malformed_row'));
  }
});

test('A.9 codecs', () => {
  for (const row of vectors('codecs')) {
    const dtype = dtypeOf(row.dtype);
    const before = patterns(bytesOf(row.old), dtype.width);
    const after = patterns(bytesOf(row.new), dtype.width);
    const positions = [...after.keys()].filter((i) => after[i] !== before[i]);
    const pick = (/** @type {any} */ values) =>
      values.filter((/** @type {any} */ _, /** @type {number} */ i) => positions.includes(i));
    const dense = row.codec === 'dense';
    const listed = Object.fromEntries(
      row.streams.split('<br>').map((stream) => [stream.split('=')[0], bytesOf(stream.split('=')[1])]),
    );
    const ranked = row.codec === 'ranked';
    const streams = ranked
      ? encodeRanked(positions, before, after)
      : codecs.encodeRow(row.codec, dtype, positions, pick(before), dense ? after : pick(after));
    if (!ranked) assert.deepEqual(streams, listed); // an encoder may make other rows of `ranked`
    const changed = Number(row.changed);
    for (const own of [listed, streams]) {
      codecs.checkStreams(row.codec, dtype, changed, before.length, own, new Set(Object.keys(own)));
      const map = new BoxMap([0], [before.length], [before.length]);
      const decoded = codecs.decodeRow(row.codec, dtype, changed, before.length, own, map, before);
      assert.deepEqual(decoded.after, dense ? after : pick(after));
      if (!dense) assert.deepEqual([...(decoded.positions ?? [])], positions);
    }
  }
});

test('A.10 keys and names', () => {
  for (const row of vectors('version keys')) {
    const version = Number(row.Version);
    assert.equal(versionKey(version), row['Version record']);
    assert.equal(anchorKey(version), row['Anchor record']);
    assert.equal(numberInKey(versionKey(version), 'versions/'), version);
  }
  for (const row of vectors('keys')) {
    assert.equal(isKey(row.String), row['As a key'] === 'valid', row.String);
    assert.equal(isFileName(row.String), row['As the name of an auxiliary file'] === 'valid', row.String);
  }
  for (const key of ['versions/7.json', 'versions/0000000000000000007.json', 'versions/99999999999999999999.json']) {
    assert.equal(numberInKey(key, 'versions/'), null);
  }
  const { tensors } = parseRecord('version', EXAMPLE.versions[0], DEFAULT_LIMITS);
  assert.deepEqual([EXAMPLE.table.length, sha256Of(EXAMPLE.table)], [tensors.bytes, tensors.digest]);
});

test('A.11 a delta part', () => {
  const bytes = hexBlock('part');
  const [part] = parseRecord('version', EXAMPLE.versions[1], DEFAULT_LIMITS).delta.parts;
  assert.deepEqual([bytes.length, sha256Of(bytes)], [part.bytes, part.digest]);
  const [batch] = part.batches;
  const message = bytes.subarray(batch.offset, batch.offset + batch.bytes);
  assert.equal(sha256Of(message), batch.digest);
  const rows = [
    ...readBatch(message, batch, part.streams, TensorTable.parse(EXAMPLE.table, DEFAULT_LIMITS), DEFAULT_LIMITS),
  ];
  const listed = vectors('part rows');
  assert.equal(rows.length, listed.length);
  rows.forEach((row, i) => {
    const want = listed[i];
    assert.deepEqual(
      [row.tensor, row.start, row.extent, row.codec, row.changed, formatHex(row.before), formatHex(row.after)],
      [
        Number(want.tensor),
        JSON.parse(want.box_start),
        JSON.parse(want.box_shape),
        want.codec,
        Number(want.changed),
        want.digest_before,
        want.digest_after,
      ],
    );
    for (const name of part.streams) assert.equal(hex(row.streams[name] ?? new Uint8Array(0)), want[name], name);
  });
});

test('A.12 a shard', () => {
  const bytes = hexBlock('shard');
  const [shard] = parseRecord('version', EXAMPLE.versions[0], DEFAULT_LIMITS).snapshot.shards;
  assert.equal(sha256Of(bytes), shard.digest);
  const header = bytes.subarray(0, shard.header_bytes);
  assert.equal(sha256Of(header), shard.header_digest);
  assert.equal(header.subarray(8).toString().trimEnd(), block('json vector=shard-header'));
  const table = TensorTable.parse(EXAMPLE.table, DEFAULT_LIMITS);
  const entries = readShardHeader(header, shard, table, 32);
  for (const { ordinal, begin, end, digest } of entries) {
    assert.equal(
      formatHex(digestOf(table.tensors[ordinal].seed, Uint8Array.from(bytes.subarray(begin, end)), 2)),
      digest,
    );
  }
  assert.deepEqual(
    writeShardHeader(
      table,
      entries.map((e) => e.ordinal),
      entries.map((e) => e.digest),
    ),
    header,
  );
});

test('A.13 refused JSON', () => {
  const text = EXAMPLE.stream.toString();
  const member = (/** @type {string} */ change) => {
    const names = [...change.matchAll(/(?:^|\], )"(\w+)":/g)].map((match) => match[1]);
    const record = JSON.parse(text);
    for (const name of names) delete record[name];
    return `${JSON.stringify(record).slice(0, -1)},${change}}`;
  };
  /** @type {Record<string, string>} */
  const others = {
    'the object cut short by one byte': text.slice(0, -1),
    'a byte order mark before it': `\ufeff${text}`,
    'the member epoch twice': `${text.slice(0, -1)},"epoch":0}`,
  };
  for (const { Change: change, Code: wanted } of vectors('bad json')) {
    const bytes = Buffer.from(others[change] ?? member(change));
    const read = () => parseRecord('stream', bytes, DEFAULT_LIMITS);
    if (wanted === 'accepted') read();
    else assert.throws(read, code(wanted), change);
  }
});

test('A.14 a signature', () => {
  const text = block('json vector=signed-record');
  const value = Object.fromEntries(vectors('signature').map((row) => [row.quantity, row.value]));
  const key = `ed25519:${value['public key']}`;
  const { value: digits } = JSON.parse(text).signature;
  const read = (/** @type {string} */ changed) => {
    const bytes = Buffer.from(changed);
    const record = parseRecord('stream', bytes, DEFAULT_LIMITS);
    checkSignature(record, bytes, [[key], record.signing_keys]);
  };
  const record = JSON.parse(text);
  const { signature, ...rest } = record;
  const otherKey = `${key.slice(0, -1)}9`;
  /** @type {Record<string, string>} */
  const changes = {
    none: text,
    'the last digit of value another': text.replace(digits, `${digits.slice(0, -1)}2`),
    '"metadata":{} becomes "metadata":{"a":1}': text.replace('"metadata":{}', '"metadata":{"a":1}'),
    'a space after the object': `${text} `,
    'signature is left out': JSON.stringify(rest),
    'key is that of A.14 with the last digit another': text.replace(`"key":"${key}"`, `"key":"${otherKey}"`),
    'the last digit of value written as \\u0031': text.replace(digits, `${digits.slice(0, -1)}\\u0031`),
    'the digits of value in metadata once more': text.replace('"metadata":{}', `"metadata":{"a":"${digits}"}`),
    'value with its digits in upper case': text.replace(digits, digits.toUpperCase()),
    'value shorter by one digit': text.replace(digits, digits.slice(1)),
    'the key twice in signing_keys': JSON.stringify({ ...record, signing_keys: [key, key] }),
    '"writer_features":["signed"] becomes "writer_features":[]': text.replace('["signed"]', '[]'),
  };
  for (const { Change: change, Code: wanted } of vectors('bad signatures')) {
    const run = () => read(changes[change] ?? assert.fail(`no such change: ${change}`));
    if (wanted === 'accepted') run();
    else assert.throws(run, code(wanted), change);
  }
  const der = Buffer.concat([
    Buffer.from('302e020100300506032b657004220420', 'hex'),
    Buffer.from(value['private key'], 'hex'),
  ]);
  const signer = new Signer(`-----BEGIN PRIVATE KEY-----\n${der.toString('base64')}\n-----END PRIVATE KEY-----\n`);
  assert.equal(signer.publicKey, key);
  const signed = signer.sign(rest);
  checkSignature(parseRecord('stream', signed, DEFAULT_LIMITS), signed, [[key]]);
  assert.ok(signature);
});

test('A.15 subsets', () => {
  for (const { things, subset, code: byte, bits, stream } of vectors('subsets')) {
    const count = Number(things);
    const members = Uint32Array.from(JSON.parse(subset));
    const writer = new BitWriter();
    writeSubset(writer, Number(byte), count, members);
    assert.deepEqual([hex(writer.finish()), writer.length], [stream, Number(bits)], subset);
    const reader = new BitReader(bytesOf(stream));
    assert.deepEqual(readSubset(reader, Number(byte), count), members);
    reader.end();
    const own = new BitWriter();
    writeSubset(own, chooseCode(count, members), count, members);
    assert.ok(own.length <= writer.length, subset);
  }
  for (const { things, code: byte, stream } of vectors('bad subsets')) {
    assert.throws(
      () => readSubset(new BitReader(bytesOf(stream)), Number(byte), Number(things)),
      code('malformed_row'),
      `${things} ${byte} ${stream}`,
    );
  }
});

test('the examples are records', () => {
  for (const kind of ['stream', 'version', 'anchor', 'head', 'lease', 'retention', 'span']) {
    for (const bytes of examples(kind)) parseRecord(kind, bytes, DEFAULT_LIMITS);
  }
  assert.equal(JSON.parse(EXAMPLE.versions[1].toString()).parent.digest, sha256Of(EXAMPLE.versions[0]));
});
