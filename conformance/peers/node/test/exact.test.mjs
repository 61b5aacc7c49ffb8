// What SPEC.md has made more exact (its appendix C).
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { mkdir, readdir, rm, stat, symlink } from 'node:fs/promises';
import { join } from 'node:path';
import { generateKeyPairSync } from 'node:crypto';
import { test } from 'node:test';
import { Consumer } from '../src/consumer.mjs';
import { envelope } from '../src/envelope.mjs';
import { jsonBytes, parseJson, writeJson } from '../src/json.mjs';
import { DEFAULT_LIMITS, makeLimits } from '../src/limits.mjs';
import { openForWriting, Producer } from '../src/producer.mjs';
import { parseRecord } from '../src/records.mjs';
import { Signer } from '../src/signatures.mjs';
import { FileStore } from '../src/store-file.mjs';
import { FakeS3 } from './fake-s3.mjs';
import { openStore } from '../src/store.mjs';
import { code, exampleStream, folder, put } from './helpers.mjs';
import { examples } from './spec.mjs';

const bytes = (/** @type {string} */ text) => Buffer.from(text);
const aSigner = () => {
  const { privateKey } = generateKeyPairSync('ed25519');
  return new Signer(/** @type {string} */ (privateKey.export({ type: 'pkcs8', format: 'pem' })));
};

test('disk: no object below a file, under a folder or a pipe', async (t) => {
  const root = await folder(t);
  const store = new FileStore(root);
  await store.putCreate('a/b', bytes('1'));
  execFileSync('mkfifo', [join(root, 'pipe')]);
  await mkdir(join(root, 'outside/x'), { recursive: true });
  await put(root, 'outside/x/y', bytes('1'));
  await symlink(join(root, 'outside'), join(root, 'link'));
  for (const key of ['a', 'a/b/c', 'pipe', 'pipe/a']) {
    await assert.rejects(store.get(key, 1), code('object_not_found'));
    await assert.rejects(store.head(key), code('object_not_found'));
    await assert.rejects(store.putOverwrite(key, bytes('1')), code('invalid_key'));
    await store.delete(key);
  }
  assert.deepEqual(await store.list('a/b/'), []);
  assert.deepEqual(await store.list('link/x/'), []);
  assert.deepEqual(
    (await store.list('')).map(({ key }) => key),
    ['a/b', 'outside/x/y'],
  );
});

test('disk: the lock is a file of the folder, and folders vanish', async (t) => {
  const root = await folder(t);
  const store = new FileStore(root);
  await store.putOverwrite('a/b', bytes('1'));
  assert.deepEqual((await readdir(join(root, 'a'))).sort(), ['.lock', 'b']);
  const { ino, size } = await stat(join(root, 'a/.lock'));
  await store.putOverwrite('a/b', bytes('2'));
  assert.deepEqual([(await stat(join(root, 'a/.lock'))).ino, size], [ino, 0]);
  await rm(join(root, 'a'), { recursive: true });
  await store.delete('a/b');
  await Promise.all(Array.from({ length: 8 }, (_, i) => store.putOverwrite('a/b', bytes(String(i)))));
  assert.deepEqual((await readdir(join(root, 'a'))).sort(), ['.lock', 'b']);
});

test('s3: a refusal after an attempt that may have arrived', async (t) => {
  const server = await new FakeS3().start(t);
  const store = openStore('s3://bucket/p');
  const faults = [503, 403];
  server.fault = (method) => (method === 'PUT' ? faults.shift() : undefined);
  await assert.rejects(store.putCreate('a', bytes('1')), code('store_unavailable'));
  server.fault = (method) => (method === 'PUT' ? 403 : undefined);
  await assert.rejects(store.putCreate('a', bytes('1')), code('store_denied'));
});

test('records: the order of checks', () => {
  const [stream] = examples('stream');
  const change = (/** @type {object} */ changes) => () =>
    parseRecord('stream', jsonBytes({ ...JSON.parse(stream.toString()), ...changes }), DEFAULT_LIMITS);
  assert.throws(change({ protocol: 'other', protocol_version: 1 }), code('unsupported_protocol'));
  for (const version of ['0.01', '00.1', '1', 1])
    assert.throws(change({ protocol_version: version }), code('malformed_record'));
  assert.throws(change({ reader_features: ['novel', 1] }), code('malformed_record'));
  assert.throws(change({ reader_features: ['No Form'] }), code('unsupported_feature'));
  assert.throws(change({ reader_features: ['ranked', 'novel'], writers: 'few' }), code('unsupported_feature'));
  const ranked = ['ranked', 'ranked'];
  assert.deepEqual(change({ reader_features: ranked, writer_features: ['ranked'] })().reader_features, ranked);
  assert.throws(change({ reader_features: ['ranked'] }), code('malformed_record'));
  assert.throws(change({ writer_features: ['ranked'] }), code('malformed_record'));
  assert.throws(change({ writer_features: ['novel', 'ranked'] }), code('malformed_record'));
  assert.equal(change({ writer_features: ['novel', 'absolute'] })().kind, 'stream');
  // The features come after the shape, and for every kind of record.
  for (const kind of ['version', 'anchor', 'span', 'head', 'lease', 'retention']) {
    const record = { ...JSON.parse(examples(kind)[0].toString()), writer_features: ['ranked'] };
    const read = (/** @type {object} */ changes) => () =>
      parseRecord(kind, jsonBytes({ ...record, ...changes }), DEFAULT_LIMITS);
    assert.throws(read({}), code('malformed_record'), kind);
    assert.equal(read({ reader_features: ['ranked'] })().kind, kind);
  }
});

test('limits hold for the record, whatever is fetched', () => {
  const [, one] = examples('version');
  for (const limit of ['batch_bytes', 'rows', 'batch_decoded_bytes', 'table_bytes'])
    assert.throws(() => parseRecord('version', one, makeLimits({ [limit]: 1 })), code('limit_exceeded'));
});

test('numbers are written as they were read', () => {
  assert.equal(writeJson(parseJson(bytes('{"a":[-0,0,1.0,-0.0]}'), 4)), '{"a":[-0,0,1.0,-0.0]}');
});

test('nothing is there from the boundary on', async (t) => {
  const { root, store, records } = await exampleStream(t);
  const consumer = new Consumer(store);
  await consumer.update();
  const { commit_id: commit } = records[0];
  await put(root, 'retention.json', jsonBytes({ ...envelope('retention', records[0], commit, 0), boundary: 5 }));
  await assert.rejects(consumer.update(), code('version_not_found'));
  assert.equal(consumer.version, 1);
});

test('a lost stream.json is not made again', async (t) => {
  const { root, store } = await exampleStream(t);
  await rm(join(root, 'stream.json'));
  await assert.rejects(Producer.open(store), code('stream_not_found'));
});

test('keys of a stream come before what it says', async (t) => {
  const plain = new FileStore(await folder(t));
  await (await Producer.open(plain)).close();
  const signed = new FileStore(await folder(t));
  const signer = aSigner();
  await (await Producer.open(signed, { signer })).close();
  const open = (/** @type {FileStore} */ store, /** @type {object} */ options) =>
    openForWriting(store, options, DEFAULT_LIMITS);
  await assert.rejects(open(plain, { signer }), code('invalid_argument'));
  await assert.rejects(open(signed, {}), code('invalid_argument'));
  await assert.rejects(open(signed, { signer: aSigner() }), code('invalid_argument'));
  await assert.rejects(open(signed, { signer, publicKeys: [] }), code('invalid_argument'));
  assert.throws(() => new Consumer(plain, { publicKeys: [] }), code('invalid_argument'));
  assert.ok(await open(signed, { signer }));
});

test('a lease that cannot be read any more fences', async (t) => {
  const root = await folder(t);
  const producer = await Producer.open(new FileStore(root));
  await put(root, 'leases/writer.json', bytes('no json'));
  const lease = /** @type {any} */ (producer.lease);
  await assert.rejects(lease.renew(), code('fenced'));
  await producer.close();
});
