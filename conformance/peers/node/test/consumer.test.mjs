// A consumer on the example stream and on what breaks it.
import assert from 'node:assert/strict';
import { readFile, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { test } from 'node:test';
import { Consumer } from '../src/consumer.mjs';
import { formatHex } from '../src/u64.mjs';
import { code, exampleStream, put } from './helpers.mjs';
import { examples } from './spec.mjs';

const V = (/** @type {number} */ n) => `versions/${String(n).padStart(20, '0')}.json`;

test('the example stream is read', async (t) => {
  const { store, records } = await exampleStream(t);
  const consumer = new Consumer(store);
  assert.equal(await consumer.update(0), 0);
  assert.equal(formatHex(consumer.held.digest), records[0].state_digest);
  assert.equal(await consumer.update(), 1);
  assert.equal(formatHex(consumer.held.digest), records[1].state_digest);
  consumer.verify();
  assert.equal(consumer.held.files.get('config.json').bytes.length, 3);
  await assert.rejects(consumer.update(0), code('invalid_argument'));
  await assert.rejects(consumer.update(2), code('version_not_found'));
  assert.equal(await consumer.update(), 1);
});

test('some tensors are read', async (t) => {
  const { store } = await exampleStream(t);
  const consumer = new Consumer(store, { tensors: ['norm.weight'] });
  assert.equal(await consumer.update(), 1);
  assert.equal(Buffer.from(consumer.held.tensors.get(1)).toString('hex'), '803f803f803f');
  consumer.verify();
  await assert.rejects(new Consumer(store, { tensors: ['none'] }).update(), code('invalid_argument'));
  const alias = new Consumer(store, { tensors: ['lm_head.weight'] });
  await alias.update();
  assert.deepEqual([...alias.held.tensors.keys()], [0]);
  const other = new Consumer(store, { tensors: ['norm.weight'] });
  await other.update(0);
  other.names = null;
  await assert.rejects(other.update(1), code('target_mismatch'));
});

test('a head that is of no use is ignored', async (t) => {
  const { root, store } = await exampleStream(t);
  const head = examples('head')[0].toString();
  for (const text of [
    '',
    'x',
    head.replace('6513', '6514'),
    head.replace('"version":1', '"version":7'),
    head.replace('"version":1,"anchor"', '"version":0,"anchor"'),
  ]) {
    await put(root, 'head.json', Buffer.from(text));
    assert.equal(await new Consumer(store).update(), 1);
  }
});

/** @type {[string, string, (s: Awaited<ReturnType<typeof exampleStream>>) => Promise<void>][]} */
const DAMAGE = [
  ['no stream', 'stream_not_found', ({ root }) => rm(join(root, 'stream.json'))],
  ['no part', 'missing_object', ({ root, records }) => rm(join(root, records[1].delta.parts[0].key))],
  ['no shard', 'missing_object', ({ root, records }) => rm(join(root, records[0].snapshot.shards[0].key))],
  ['no table', 'missing_object', ({ root, records }) => rm(join(root, records[0].tensors.key))],
  ['no file', 'missing_object', ({ root, records }) => rm(join(root, records[0].files[0].key))],
  ['no version 0', 'path_lost', ({ root }) => rm(join(root, V(0)))],
  ['a short part', 'size_mismatch', async ({ root, records }) => cut(root, records[1].delta.parts[0].key, 2000)],
  ['a short shard', 'size_mismatch', async ({ root, records }) => cut(root, records[0].snapshot.shards[0].key, 300)],
  ['another batch', 'digest_mismatch', async ({ root, records }) => flip(root, records[1].delta.parts[0].key, 2000)],
  ['another shard', 'digest_mismatch', async ({ root, records }) => flip(root, records[0].snapshot.shards[0].key, 300)],
  ['another table', 'digest_mismatch', async ({ root, records }) => flip(root, records[0].tensors.key, 100)],
  ['another file', 'digest_mismatch', async ({ root, records }) => flip(root, records[0].files[0].key, 1)],
  ['another parent', 'broken_chain', ({ root }) => edit(root, V(0), '"step":0', '"step":5')],
  ['another stream', 'wrong_stream', ({ root }) => edit(root, V(1), '6513270e', '6513270f')],
  [
    'another version',
    'broken_chain',
    ({ root }) => edit(root, V(1), '"version":1,"parent":{"version":0', '"version":2,"parent":{"version":1'),
  ],
  ['a state digest', 'broken_chain', ({ root }) => edit(root, V(1), '2c4c374d8aa48864', '2c4c374d8aa48865')],
  ['a count', 'state_mismatch', ({ root }) => edit(root, V(1), '"changed_elements":5', '"changed_elements":6')],
  ['decoded bytes', 'malformed_part', ({ root }) => edit(root, V(1), '"decoded_bytes":311', '"decoded_bytes":312')],
  [
    'many decoded bytes',
    'limit_exceeded',
    ({ root }) => edit(root, V(1), '"decoded_bytes":311', '"decoded_bytes":31100000000'),
  ],
  ['rows', 'malformed_part', ({ root }) => edit(root, V(1), '"rows":2', '"rows":3')],
  ['ordinals', 'malformed_part', ({ root }) => edit(root, V(1), '"last_tensor":1', '"last_tensor":2')],
  ['a range', 'malformed_record', ({ root }) => edit(root, V(1), '"offset":808', '"offset":3000')],
  [
    'a feature',
    'unsupported_feature',
    ({ root }) => edit(root, V(1), '"reader_features":[]', '"reader_features":["new"]'),
  ],
  ['retention', 'malformed_record', ({ root }) => put(root, 'retention.json', Buffer.from('{}'))],
];

/** @param {string} root @param {string} key @param {string} from @param {string} to */
async function edit(root, key, from, to) {
  const text = await readFile(join(root, key), 'utf8');
  assert.ok(text.includes(from), from);
  await put(root, key, Buffer.from(text.replace(from, to)));
}
/** @param {string} root @param {string} key @param {number} at */
async function flip(root, key, at) {
  const bytes = await readFile(join(root, key));
  bytes[at] ^= 1;
  await put(root, key, bytes);
}
/** @param {string} root @param {string} key @param {number} length */
async function cut(root, key, length) {
  await put(root, key, (await readFile(join(root, key))).subarray(0, length));
}

for (const [what, wanted, damage] of DAMAGE) {
  test(`damage: ${what} is ${wanted}`, async (t) => {
    const stream = await exampleStream(t);
    await damage(stream);
    await assert.rejects(new Consumer(stream.store).update(), code(wanted));
  });
}

test('a version below the boundary is not part of the stream', async (t) => {
  const { root, store } = await exampleStream(t);
  const text = examples('retention')[0].toString();
  await put(root, 'retention.json', Buffer.from(text));
  assert.equal(await new Consumer(store).update(), 1);
  await put(root, 'retention.json', Buffer.from(text.replace('"kept":[0]', '"kept":[]')));
  await assert.rejects(new Consumer(store).update(0), code('version_not_found'));
  await assert.rejects(new Consumer(store).update(), code('path_lost'));
  await put(root, 'retention.json', Buffer.from(text.replace('"boundary":1', '"boundary":2')));
  await assert.rejects(new Consumer(store).update(), code('version_not_found'));
});
