// Commits and leases where answers are lost and others are faster (sections 11.1 and 11.9).
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Consumer } from '../src/consumer.mjs';
import { envelope } from '../src/envelope.mjs';
import { DeltawireError } from '../src/errors.mjs';
import { jsonBytes } from '../src/json.mjs';
import { versionKey } from '../src/keys.mjs';
import { Producer } from '../src/producer.mjs';
import { FileStore } from '../src/store-file.mjs';
import { code, folder, put } from './helpers.mjs';

const lost = () => {
  throw new DeltawireError('store_unavailable', 'for the test');
};

/** A store whose verbs can be made to fail: before they are done, or after. */
class Faulty extends FileStore {
  /** @type {((verb: string, key: string) => 'before' | 'after' | 'denied' | undefined)} */
  fault = () => undefined;

  /** @param {string} verb @param {string} key @param {() => Promise<any>} work */
  async run(verb, key, work) {
    const fault = this.fault(verb, key);
    if (fault === 'before') lost();
    if (fault === 'denied') throw new DeltawireError('store_denied', 'for the test');
    const result = await work();
    if (fault === 'after') lost();
    return result;
  }

  /** @param {string} key @param {number} most */
  get(key, most) {
    return this.run('get', key, () => super.get(key, most));
  }

  /** @param {string} key @param {Uint8Array} bytes */
  putCreate(key, bytes) {
    return this.run('create', key, () => super.putCreate(key, bytes));
  }

  /** @param {string} key @param {Uint8Array} bytes @param {string} token */
  putReplace(key, bytes, token) {
    return this.run('replace', key, () => super.putReplace(key, bytes, token));
  }
}

const tensors = [{ name: 'a', dtype: 'U8', shape: [4], bytes: new Uint8Array(4) }];

/** @param {import('node:test').TestContext} t */
async function open(t) {
  const store = new Faulty(await folder(t));
  const producer = await Producer.open(store);
  t.after(() => producer.close());
  return { store, producer };
}

for (const when of /** @type {const} */ (['before', 'after'])) {
  test(`an answer lost ${when} the record was created`, async (t) => {
    const { store, producer } = await open(t);
    let times = 1;
    store.fault = (verb, key) => (verb === 'create' && key.startsWith('versions/') && times-- > 0 ? when : undefined);
    assert.equal((await producer.publish({ tensors })).version, 0);
    assert.equal(await new Consumer(store).update(), 0);
  });

  test(`an answer lost ${when} the lease was renewed`, async (t) => {
    const { store, producer } = await open(t);
    let times = 1;
    store.fault = (verb, key) => (verb === 'replace' && key === 'leases/writer.json' && times-- > 0 ? when : undefined);
    await producer.lease.exclusively(() => producer.lease.renew());
    assert.equal(producer.lease.fenced, false);
    assert.equal((await store.get('leases/writer.json', 1e6)).token, producer.lease.token);
  });
}

test('an outcome that stays unknown', async (t) => {
  const { store, producer } = await open(t);
  store.fault = (_verb, key) => (key.startsWith('versions/') ? 'after' : undefined);
  await assert.rejects(producer.publish({ tensors }), code('outcome_unknown'));
  store.fault = () => undefined;
  await assert.rejects(producer.publish({ tensors }), code('outcome_unknown'));
  const again = await Producer.open(store);
  assert.equal(again.version, 0);
  await again.close();
});

test('a definite refusal leaves the producer as it was', async (t) => {
  const { store, producer } = await open(t);
  store.fault = (verb, key) => (verb === 'create' && key.startsWith('versions/') ? 'denied' : undefined);
  await assert.rejects(producer.publish({ tensors }), code('store_denied'));
  store.fault = () => undefined;
  assert.equal((await producer.publish({ tensors })).version, 0);
});

test('a lost race is told by the epoch', async (t) => {
  for (const [text, wanted] of [
    ['{"epoch":9}', 'fenced'],
    ['{"epoch":0}', 'conflict'],
    ['x', 'conflict'],
  ]) {
    const { store, producer } = await open(t);
    await put(store.root, versionKey(0), Buffer.from(text));
    await assert.rejects(producer.publish({ tensors }), code(wanted));
  }
});

test('a commit that the boundary has passed', async (t) => {
  const { store, producer } = await open(t);
  const { stream } = producer.reader;
  await put(
    store.root,
    'retention.json',
    jsonBytes({ ...envelope('retention', stream, stream.commit_id, 0), boundary: 1 }),
  );
  await assert.rejects(producer.publish({ tensors }), code('fenced'));
  const other = await open(t);
  await put(other.store.root, 'retention.json', Buffer.from('x'));
  await assert.rejects(other.producer.publish({ tensors }), code('outcome_unknown'));
});

test('a lease that is gone or cannot be read', async (t) => {
  const { store, producer } = await open(t);
  await store.delete('leases/writer.json');
  await assert.rejects(
    producer.lease.exclusively(() => producer.lease.renew()),
    code('fenced'),
  );
  await assert.rejects(producer.publish({ tensors }), code('fenced'));
  await put(store.root, 'leases/writer.json', Buffer.from('{}'));
  await assert.rejects(Producer.open(store), code('malformed_record'));
});

test('members that are not known stay', async (t) => {
  const { store, producer } = await open(t);
  await producer.publish({ tensors });
  await producer.close();
  for (const key of ['head.json', 'leases/writer.json']) {
    const record = JSON.parse(Buffer.from((await store.get(key, 1e6)).bytes).toString());
    await put(store.root, key, Buffer.from(JSON.stringify({ ...record, later: { x: 1 } }).replace('"x":1', '"x":1.0')));
  }
  const again = await Producer.open(store);
  await again.publish({ tensors });
  await again.close();
  for (const key of ['head.json', 'leases/writer.json']) {
    assert.match(Buffer.from((await store.get(key, 1e6)).bytes).toString(), /"later":\{"x":1\.0\}/);
  }
});

test('changes while publishing are noticed', async (t) => {
  const { store, producer } = await open(t);
  await producer.publish({ tensors });
  const bytes = new Uint8Array(4).fill(1);
  const publishing = producer.publish({ tensors: [{ ...tensors[0], bytes }] });
  store.fault = () => {
    bytes[0] = 7;
    return undefined;
  };
  await assert.rejects(publishing, code('source_changed'));
  await assert.rejects(producer.publish({ tensors }), code('source_changed'));
  const consumer = new Consumer(store);
  assert.equal(await consumer.update(), 1);
  consumer.verify();
});
