// A consumer (CNF-1), partial (CNF-2) and verifying (CNF-8): section 11.6.
import { DeltawireError, fail, isCode } from './errors.mjs';
import { fetchWhole } from './fetch.mjs';
import { makeLimits } from './limits.mjs';
import { Planner, stepName } from './plan.mjs';
import { StreamReader } from './reader.mjs';
import { checkPublicKeys } from './signatures.mjs';
import { prepareDelta, writeChanges } from './delta-step.mjs';
import { loadSnapshot } from './snapshot-step.mjs';
import { select, verifyHeld } from './state.mjs';
import { TensorTable } from './table.mjs';

/** @typedef {import('./state.mjs').Held} Held */
/** @typedef {import('./plan.mjs').Step} Step */
/** @typedef {import('./reader.mjs').Read} Read */

/** Codes of a step that is no good (PLN-5); `broken_chain` is not among them, but for spans and anchors. */
const STEP_CODES = [
  'missing_object',
  'size_mismatch',
  'digest_mismatch',
  'malformed_part',
  'malformed_row',
  'malformed_shard',
  'unsupported_codec',
  'limit_exceeded',
  'state_mismatch',
];
/** Besides, a tensor table that is no good (PLN-5). */
const TABLE_CODES = [...STEP_CODES, 'malformed_record', 'unsupported_dtype', 'unsupported_protocol'];

/** What of a version, and not of one step to it, is no good. */
class VersionFailure extends Error {
  /** @param {DeltawireError} error */
  constructor(error) {
    super(error.message);
    this.error = error;
  }
}

/** @template T @param {Promise<T>} work @param {string[]} codes */
async function ofVersion(work, codes) {
  try {
    return await work;
  } catch (error) {
    if (isCode(error, ...codes)) throw new VersionFailure(/** @type {DeltawireError} */ (error));
    throw error;
  }
}

export class Consumer {
  /**
   * @param {import('./store.mjs').Store} store
   * @param {object} [options]
   * @param {Record<string, number>} [options.limits] that replace the defaults (LIM-1)
   * @param {string[] | null} [options.publicKeys] keys to believe (SIG-5); null for none
   * @param {string[] | null} [options.tensors] names of the tensors wanted; null for all (FOL-6)
   * @param {boolean} [options.files] whether auxiliary files are wanted
   * @param {boolean} [options.anchors] whether anchors are used
   * @param {boolean} [options.spans] whether spans are used
   * @param {Held | null} [options.held] what is held already
   * @param {import('./pin.mjs').ReaderPin | null} [options.pin] keeps what is needed from being collected
   * @param {(note: string) => void} [options.note] is told of what was got round (PLN-5)
   */
  constructor(store, options = {}) {
    this.store = store;
    this.limits = makeLimits(options.limits);
    this.publicKeys = checkPublicKeys(options.publicKeys ?? null);
    this.names = options.tensors ?? null;
    this.wantFiles = options.files ?? true;
    this.use = { anchors: options.anchors ?? true, spans: options.spans ?? true };
    this.held = options.held ?? null;
    this.pin = options.pin ?? null;
    this.note = options.note ?? (() => {});
  }

  /** The version held, or null. */
  get version() {
    return this.held ? this.held.read.record.version : null;
  }

  /** DIG-6: checks the whole state held, element by element. */
  verify() {
    if (this.held) verifyHeld(this.held);
  }

  /**
   * Brings what is held to a version (sections 11.4 to 11.6).
   * @param {number | 'latest'} [wanted]
   * @returns {Promise<number | null>} the version held
   */
  async update(wanted = 'latest') {
    const reader = await StreamReader.open(this.store, this.limits, this.publicKeys);
    if (this.held) {
      if (this.held.streamId !== reader.stream.stream_id)
        fail('wrong_base', 'what is held is of another stream (FOL-2)');
      reader.vouch('version', this.held.read);
    }
    for (;;) {
      const { version, retention } = await this.target(reader, wanted);
      if (version === this.version) {
        if (this.pin && version !== null) await this.pin.set(reader.stream, version);
        this.pin?.look(await reader.retention(), version);
        return version;
      }
      if (await this.go(reader, version, retention)) return version;
    }
  }

  /** FOL-1, PLN-1. @param {StreamReader} reader @param {number | 'latest'} wanted */
  async target(reader, wanted) {
    if (wanted === 'latest') return reader.newest(this.version);
    if (!Number.isSafeInteger(wanted) || wanted < 0) fail('invalid_argument', 'not a version');
    if (this.version !== null && wanted < this.version)
      fail('invalid_argument', `version ${this.version} is held; there is no way back (FOL-1)`);
    const there = wanted === this.version || (await reader.exists(wanted));
    const retention = await reader.retention();
    if (wanted !== this.version && (!there || !retention.has(wanted))) {
      fail('version_not_found', `version ${wanted} is not there, or not retained`);
    }
    return { version: wanted, retention };
  }

  /**
   * Goes to a version.
   * @param {StreamReader} reader
   * @param {number} version
   * @param {import('./reader.mjs').Retention} retention
   * @returns {Promise<boolean>} false if the version has ceased to be retained, or to be there
   */
  async go(reader, version, retention) {
    let planner = new Planner(reader, version, this.use);
    /** @type {unknown} */
    let failure = null;
    while (this.version !== version) {
      const plan = await this.plan(planner, retention).catch(async (error) => {
        // PLN-6: what is no good was perhaps not part of the stream any more.
        if (!isCode(error)) throw error;
        return { error, way: null };
      });
      if (this.pin && plan.way)
        await this.pin.set(reader.stream, plan.way[0].base === -1 ? plan.way[0].version : plan.way[0].base);
      const now = await reader.retention();
      this.pin?.look(now, this.version);
      if (!now.equals(retention) || plan.way?.some((step) => !now.has(step.version))) {
        retention = now;
        if (!now.has(version)) return false;
        const { excluded, excludedVersions } = planner;
        planner = Object.assign(new Planner(reader, version, this.use), { excluded, excludedVersions });
        continue;
      }
      if (plan.error) throw plan.error;
      if (!plan.way) throw planner.noWay(failure);
      for (const step of plan.way) {
        const error = await this.attempt(reader, planner, step);
        if (!error) continue;
        failure ??= error;
        this.note(`${stepName(step)} is no good and is got round: ${error.message}`);
        break;
      }
    }
    await this.pin?.set(reader.stream, version);
    return true;
  }

  /**
   * A way whose records are sound (section 11.5).
   * @param {Planner} planner
   * @param {import('./reader.mjs').Retention} retention
   */
  async plan(planner, retention) {
    for (;;) {
      const way = await planner.search(this.version, retention);
      const unfit = way && (await planner.check(way, this.held?.read ?? null));
      if (!unfit) return { way, error: null };
      planner.excluded.add(stepName(unfit)); // SPN-6
    }
  }

  /**
   * Takes a step, all or nothing (APL-4).
   * @param {StreamReader} reader
   * @param {Planner} planner
   * @param {Step} step
   * @returns {Promise<DeltawireError | null>} why the step is ruled out from now on, if it is (PLN-5)
   */
  async attempt(reader, planner, step) {
    const read = /** @type {Read} */ (await planner.record(step.version));
    try {
      if (step.base === -1) await this.takeSnapshot(reader, read, step);
      else await this.takeDelta(reader, read, step);
      return null;
    } catch (error) {
      if (error instanceof VersionFailure) {
        planner.excludedVersions.add(step.version);
        return error.error;
      }
      if (!isCode(error, ...STEP_CODES)) throw error;
      planner.excluded.add(stepName(step));
      return /** @type {DeltawireError} */ (error);
    }
  }

  /** @param {StreamReader} reader @param {Read} read @param {Step} step */
  async takeSnapshot(reader, read, step) {
    const table = await this.table(read.record);
    const wanted = select(table, this.names);
    const files = await this.files(read.record);
    const loaded = await loadSnapshot(
      this.store,
      step.body,
      read.record.state_digest,
      table,
      wanted,
      this.publicKeys !== null,
      this.limits,
    );
    this.held = { streamId: reader.stream.stream_id, read, table, files, ...loaded };
  }

  /** @param {StreamReader} reader @param {Read} read @param {Step} step */
  async takeDelta(reader, read, step) {
    const held = /** @type {Held} */ (this.held);
    await this.table(read.record);
    const wanted = select(held.table, this.names);
    if (wanted.size !== held.tensors.size || ![...wanted].every((ordinal) => held.tensors.has(ordinal))) {
      fail('target_mismatch', 'the tensors held are not those wanted');
    }
    const files = await this.files(read.record);
    const { changes, digest } = await prepareDelta(this.store, step.body, read.record.state_digest, held, this.limits);
    writeChanges(changes, held);
    this.held = { ...held, read, files, digest };
  }

  /** The tensor table of a version; the very object that is held is not fetched again. @param {any} record */
  async table(record) {
    const known = this.held?.read.record.tensors;
    if (this.held && known.key === record.tensors.key && known.digest === record.tensors.digest) return this.held.table;
    const parse = async () =>
      TensorTable.parse(await fetchWhole(this.store, record.tensors, this.limits, 'table_bytes'), this.limits);
    return ofVersion(parse(), TABLE_CODES);
  }

  /** FOL-4, APL-3. @param {any} record @returns {Promise<Map<string, {bytes: Uint8Array, digest: string}>>} */
  async files(record) {
    /** @type {Map<string, {bytes: Uint8Array, digest: string}>} */
    const out = new Map();
    for (const file of this.wantFiles ? (record.files ?? []) : []) {
      const held = this.held?.files.get(file.name);
      const bytes =
        held && held.digest === file.digest
          ? held.bytes
          : await ofVersion(fetchWhole(this.store, file, this.limits, 'file_bytes'), STEP_CODES);
      out.set(file.name, { bytes, digest: file.digest });
    }
    return out;
  }
}
