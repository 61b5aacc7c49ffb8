// The bindings for local disk and S3 (section 5).
import assert from 'node:assert/strict';
import { readdir, symlink } from 'node:fs/promises';
import { join } from 'node:path';
import { test } from 'node:test';
import { Consumer } from '../src/consumer.mjs';
import { placeOf } from '../src/http.mjs';
import { Producer } from '../src/producer.mjs';
import { openStore } from '../src/store.mjs';
import { FakeS3 } from './fake-s3.mjs';
import { code, folder } from './helpers.mjs';

const bytes = (/** @type {string} */ text) => Buffer.from(text);
const text = (/** @type {Uint8Array} */ found) => Buffer.from(found).toString();

/** @type {Record<string, (t: import('node:test').TestContext) => Promise<import('../src/store.mjs').Store>>} */
const STORES = {
  disk: async (t) => openStore(`file://${await folder(t)}`),
  s3: async (t) => {
    await new FakeS3().start(t);
    return openStore('s3://bucket/some/prefix');
  },
  's3 with redirects': async (t) => {
    const server = await new FakeS3().start(t);
    server.elsewhere = (path) => `http://localhost:${server.port}${path}`;
    return openStore('s3://bucket/some/prefix');
  },
};

for (const [name, open] of Object.entries(STORES)) {
  test(`${name}: the verbs`, async (t) => {
    const store = await open(t);
    await assert.rejects(store.get('a', 10), code('object_not_found'));
    await assert.rejects(store.head('a'), code('object_not_found'));
    await assert.rejects(store.getRange('a', 0, 1), code('object_not_found'));
    assert.deepEqual(await store.list('x/'), []);
    const first = await store.putCreate('x/a.json', bytes('12345'));
    await assert.rejects(store.putCreate('x/a.json', bytes('6')), code('object_exists'));
    assert.deepEqual(
      [text((await store.get('x/a.json', 5)).bytes), (await store.get('x/a.json', 5)).token],
      ['12345', first],
    );
    await assert.rejects(store.get('x/a.json', 4), code('limit_exceeded'));
    assert.equal(text(await store.getRange('x/a.json', 1, 3)), '234');
    assert.equal((await store.getRange('x/a.json', 5, 0)).length, 0);
    await assert.rejects(store.getRange('x/a.json', 3, 3), code('size_mismatch'));
    await assert.rejects(store.getRange('x/a.json', 9, 3), code('size_mismatch'));
    assert.equal(await store.head('x/a.json'), 5);
    const second = await store.putReplace('x/a.json', bytes('new'), first);
    await assert.rejects(store.putReplace('x/a.json', bytes('x'), first), code('precondition_failed'));
    await assert.rejects(store.putReplace('x/none', bytes('x'), second), code('precondition_failed'));
    await store.putOverwrite('x/b', bytes('b'));
    await store.putStream('x/c', [bytes('c'), bytes('d')]);
    for (const key of ['x/d', 'x/e', 'y']) await store.putCreate(key, bytes(key));
    assert.deepEqual(
      (await store.list('x/')).map(({ key, size }) => [key, size]),
      [
        ['x/a.json', 3],
        ['x/b', 1],
        ['x/c', 2],
        ['x/d', 3],
        ['x/e', 3],
      ],
    );
    await store.delete('x/b');
    await store.delete('x/b');
    await assert.rejects(store.get('x/b', 1), code('object_not_found'));
    for (const key of ['', '.a', 'a/../b', '/a', 'a b', 'ä', 'a'.repeat(513)])
      await assert.rejects(async () => store.get(key, 1), code('invalid_key'));
  });

  test(`${name}: racing creates have one winner`, async (t) => {
    const store = await open(t);
    const results = await Promise.allSettled([1, 2, 3, 4].map((n) => store.putCreate('k', bytes(String(n)))));
    assert.equal(results.filter(({ status }) => status === 'fulfilled').length, 1);
  });

  test(`${name}: a stream`, async (t) => {
    const store = await open(t);
    const producer = await Producer.open(store);
    const tensors = [{ name: 'w', dtype: 'F32', shape: [100], bytes: new Uint8Array(400) }];
    await producer.publish({ tensors });
    tensors[0] = { ...tensors[0], bytes: new Uint8Array(400).map((_, i) => i % 7) };
    await producer.publish({ tensors, files: new Map([['a.txt', bytes('a')]]) });
    await producer.close();
    const consumer = new Consumer(store);
    assert.equal(await consumer.update(), 1);
    assert.deepEqual(consumer.held.tensors.get(0), tensors[0].bytes);
  });
}

test('disk: links, folders and temporary files', async (t) => {
  const root = await folder(t);
  const store = openStore(root);
  await store.putCreate('a/b', bytes('1'));
  await symlink(join(root, 'a'), join(root, 'link'));
  await symlink(join(root, 'a/b'), join(root, 'c'));
  for (const key of ['link/b', 'c']) {
    await assert.rejects(store.get(key, 1), code('invalid_key'));
    await assert.rejects(store.putOverwrite(key, bytes('2')), code('invalid_key'));
  }
  await assert.rejects(store.putCreate('a', bytes('1')), code('invalid_key'));
  await assert.rejects(store.putCreate('a/b/c', bytes('1')), code('invalid_key'));
  await assert.rejects(store.putCreate('s'.repeat(256), bytes('1')), code('invalid_key'));
  const failing = function* () {
    yield bytes('1');
    throw new Error('no more');
  };
  await assert.rejects(store.putStream('a/d', failing()), /no more/);
  assert.deepEqual(await readdir(join(root, 'a')), ['b']);
  assert.deepEqual(
    (await store.list('')).map(({ key }) => key),
    ['a/b'],
  );
});

test('disk: concurrent swaps count', async (t) => {
  const store = openStore(await folder(t));
  await store.putCreate('n', bytes('0'));
  const add = async () => {
    for (;;) {
      const { bytes: found, token } = await store.get('n', 10);
      try {
        return await store.putReplace('n', bytes(String(Number(text(found)) + 1)), token);
      } catch (error) {
        code('precondition_failed')(error);
      }
    }
  };
  await Promise.all([1, 2, 3, 4, 5, 6].map(add));
  assert.equal(text((await store.get('n', 10)).bytes), '6');
});

test('s3: faults', async (t) => {
  const server = await new FakeS3().start(t);
  const store = openStore('s3://bucket/p');
  /** @param {('drop' | 'lose' | number)[]} list */
  const faults = (...list) => {
    server.fault = (method) => (method === 'PUT' ? list.shift() : undefined);
  };
  faults('lose');
  await store.putCreate('a', bytes('1')); // STO-19: the 412 of the second attempt is our own
  faults('drop', 409, 503);
  await store.putCreate('b', bytes('1'));
  faults('drop');
  await assert.rejects(store.putCreate('b', bytes('2')), code('object_exists'));
  faults(403);
  await assert.rejects(store.putCreate('c', bytes('1')), code('store_denied'));
  faults(501);
  await assert.rejects(store.putCreate('c', bytes('1')), code('store_unfit'));
  server.fault = () => undefined;
  const big = new Uint8Array(17 * 1024 * 1024).fill(7);
  await store.putStream('big', [big.subarray(0, 9000000), big.subarray(9000000), bytes('end')]);
  assert.equal(server.objects.get('p/big')?.length, big.length + 3);
  await assert.rejects(
    store.putStream(
      'never',
      (function* () {
        yield big;
        throw new Error('no more');
      })(),
    ),
    /no more/,
  );
  assert.equal(server.uploads.has('p/never'), false);
});

test('s3: redirects', async (t) => {
  const server = await new FakeS3().start(t);
  const store = openStore('s3://bucket');
  const token = await store.putCreate('a', bytes('12345'));
  const there = (/** @type {string} */ path) => `http://localhost:${server.port}${path}`;
  server.elsewhere = there;
  let home = 0;
  const count = (/** @type {number} */ n) => {
    home = n;
    server.fault = (method) => (method === 'GET' && home++ === 1 ? 403 : undefined);
  };
  count(0); // the place says that the address is out of date: it is asked for anew
  assert.deepEqual([text((await store.get('a', 5)).bytes), (await store.get('a', 5)).token], ['12345', token]);
  server.fault = () => undefined;
  for (const place of ['/bucket/a', 'file:///a', 'http://', `http://me:you@localhost:${server.port}/bucket/a`]) {
    server.elsewhere = () => place;
    const { requests } = server;
    await assert.rejects(store.get('a', 5), code('store_unavailable')); // in circles, or not followed
    assert.ok(server.requests - requests <= 6);
  }
  const answer = (/** @type {string} */ location) => ({
    status: 302,
    headers: new Headers({ location }),
    body: new Uint8Array(0),
  });
  assert.equal(placeOf(answer('/b?c'), 'https://s3/a'), 'https://s3/b?c');
  assert.equal(placeOf(answer('https://cdn/b'), 'http://s3/a'), 'https://cdn/b');
  assert.throws(() => placeOf(answer('http://cdn/b'), 'https://s3/a'), code('store_unavailable'));
});

test('s3: no answer at all', async (t) => {
  const server = await new FakeS3().start(t);
  const store = openStore('s3://bucket');
  server.fault = () => 503;
  await assert.rejects(store.get('a', 1), code('store_unavailable'));
  assert.ok(server.requests > 3);
});
