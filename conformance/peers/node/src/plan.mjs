// Planning a way to a version, and checking it (section 11.5).
import { DeltawireError, fail, isCode } from './errors.mjs';
import { isStoreFailure } from './reader.mjs';
import { digestAfter, partsBytes, shardsBytes } from './records.mjs';
import { formatHex } from './u64.mjs';

/** @typedef {import('./reader.mjs').StreamReader} StreamReader */
/** @typedef {import('./reader.mjs').Retention} Retention */
/** @typedef {import('./reader.mjs').Read} Read */

/** A reader that is fewer versions behind asks for no listings of anchors and spans (PLN-1). */
const FEW_VERSIONS = 4;
const SOURCE = -1;

/**
 * A step of a way.
 * @typedef {object} Step
 * @property {'rebase' | 'anchor' | 'delta' | 'span'} kind
 * @property {number} base the version that it leads from, or -1 for a snapshot
 * @property {number} version the version that it leads to
 * @property {number} bytes
 * @property {any} body the snapshot or the delta
 * @property {any} [span] the record of a span
 */

/** @param {Step} step */
export const stepName = (step) => `${step.kind} ${step.base === SOURCE ? '' : `${step.base} to `}${step.version}`;

/** Finds ways in one stream to one version, as often as steps turn out to be no good. */
export class Planner {
  /**
   * @param {StreamReader} reader
   * @param {number} target
   * @param {{anchors: boolean, spans: boolean}} use
   */
  constructor(reader, target, use) {
    this.reader = reader;
    this.target = target;
    this.use = use;
    /** @type {Set<string>} names of steps that failed (PLN-5) */
    this.excluded = new Set();
    /** @type {Set<number>} versions that no step may lead to (PLN-5) */
    this.excludedVersions = new Set();
    /** @type {unknown} the first record of a version that is no good (PLN-3) */
    this.recordFailure = null;
    /** @type {unknown} the first anchor that is no good (PLN-4) */
    this.offerFailure = null;
    /** @type {Map<number, Read>} */
    this.versions = new Map();
    /** @type {Set<number>} anchors that the search knows */
    this.anchors = new Set();
    /** @type {Map<number, number[]>} bases of the spans that it knows, by target */
    this.spans = new Map();
  }

  /** A version's record, or null if the way has to go round it (PLN-3). @param {number} version */
  async record(version) {
    const known = this.versions.get(version);
    if (known) return known;
    if (this.versions.size >= this.reader.limits.path_records)
      fail('limit_exceeded', 'a way over more records than path_records');
    try {
      const read = await this.reader.version(version);
      this.versions.set(version, read);
      return read;
    } catch (error) {
      if (!isCode(error, 'object_not_found', 'malformed_record', 'limit_exceeded')) throw error;
      this.recordFailure ??= isCode(error, 'object_not_found')
        ? new DeltawireError('path_lost', `the record of version ${version} is missing`, { cause: error })
        : error;
      return null;
    }
  }

  /** The record of an anchor or a span, or null if it is no good (PLN-4, SPN-6). @param {Promise<any>} reading */
  async offer(reading) {
    try {
      return await reading;
    } catch (error) {
      if (isStoreFailure(error)) throw error;
      if (!isCode(error, 'object_not_found')) this.offerFailure ??= error;
      return null;
    }
  }

  /**
   * Steps that lead to a version.
   * @param {number} version
   * @param {Read} read
   * @param {number | null} held
   * @param {Retention} retention
   */
  async stepsTo(version, read, held, retention) {
    /** @type {Step[]} */
    const steps = [];
    const { snapshot, delta } = read.record;
    if (snapshot) steps.push({ kind: 'rebase', base: SOURCE, version, bytes: shardsBytes(snapshot), body: snapshot });
    if (this.anchors.has(version)) {
      const anchor = await this.offer(this.reader.anchor(version, read));
      if (anchor) {
        const bytes = shardsBytes(anchor.snapshot);
        steps.push({ kind: 'anchor', base: SOURCE, version, bytes, body: anchor.snapshot });
      }
    }
    if (delta) steps.push({ kind: 'delta', base: version - 1, version, bytes: partsBytes(delta), body: delta });
    for (const base of this.spans.get(version) ?? []) {
      if (!(base === held || (retention.has(base) && base > (held ?? -1)))) continue;
      const span = await this.offer(this.reader.span(base, version, read));
      if (span) steps.push({ kind: 'span', base, version, bytes: partsBytes(span.delta), body: span.delta, span });
    }
    const usable = steps.filter((step) => !this.excluded.has(stepName(step)));
    // From nothing the newest snapshot is the cheapest: older ones of the same tensors are as large.
    const snapshotHere = usable.some((step) => step.base === SOURCE);
    return usable.filter((step) => step.base === SOURCE || (held === null ? !snapshotHere : step.base >= held));
  }

  /**
   * The cheapest way from what is held (PLN-1, PLN-2), searched from its end, over retained versions (RET-3).
   * @param {number | null} held
   * @param {Retention} retention
   * @returns {Promise<Step[] | null>}
   */
  async search(held, retention) {
    const far = held === null || this.target - held > FEW_VERSIONS;
    return (far ? null : await this.searchOver([], new Map(), held, retention)) ?? this.searchAll(held, retention);
  }

  /** @param {number | null} held @param {Retention} retention */
  async searchAll(held, retention) {
    const anchors = this.use.anchors ? await this.reader.numbers('anchors/') : [];
    return this.searchOver(anchors, this.use.spans ? await this.reader.spans() : new Map(), held, retention);
  }

  /**
   * @param {number[]} anchors that are listed
   * @param {Map<number, number[]>} spans that are listed: bases by target
   * @param {number | null} held
   * @param {Retention} retention
   * @returns {Promise<Step[] | null>}
   */
  async searchOver(anchors, spans, held, retention) {
    this.anchors = new Set(anchors);
    this.spans = spans;
    /** @type {Map<number, {bytes: number, steps: number, step: Step | null}>} */
    const open = new Map([[this.target, { bytes: 0, steps: 0, step: null }]]);
    /** @type {Map<number, Step | null>} the step by which the way goes on */
    const closed = new Map();
    while (open.size > 0) {
      let at = NaN;
      for (const [node, cost] of open) {
        const best = open.get(at);
        if (!best || cost.bytes < best.bytes || (cost.bytes === best.bytes && cost.steps < best.steps)) at = node;
      }
      const { bytes, steps, step } = /** @type {{bytes: number, steps: number, step: Step | null}} */ (open.get(at));
      open.delete(at);
      closed.set(at, step);
      if (at === SOURCE || at === held) {
        /** @type {Step[]} */
        const way = [];
        for (let next = step; next; next = closed.get(next.version) ?? null) way.push(next);
        return way;
      }
      if (!retention.has(at) || this.excludedVersions.has(at)) continue;
      const read = await this.record(at);
      if (read === null) continue;
      for (const into of await this.stepsTo(at, read, held, retention)) {
        if (closed.has(into.base)) continue;
        const cost = { bytes: bytes + into.bytes, steps: steps + 1, step: into };
        const known = open.get(into.base);
        if (!known || cost.bytes < known.bytes || (cost.bytes === known.bytes && cost.steps < known.steps))
          open.set(into.base, cost);
      }
    }
    return null;
  }

  /**
   * Checks the records of a way (CHN-1 to CHN-6, SPN-4).
   * @param {Step[]} way
   * @param {Read | null} held record of the version held
   * @returns {Promise<Step | null>} a span that does not fit what it leads from, if there is one
   */
  async check(way, held) {
    /** @type {Map<number, Read>} */
    const on = new Map();
    let before = held;
    if (held) on.set(held.record.version, held);
    for (const step of way) {
      const here = /** @type {Read} */ (await this.record(step.version));
      if (step.base !== SOURCE) {
        const from = /** @type {Read} */ (before);
        const follows = formatHex(digestAfter(from.record.state_digest, step.body)) === here.record.state_digest;
        const sameTable = from.record.tensors.digest === here.record.tensors.digest;
        const rises = from.record.epoch <= here.record.epoch;
        if (step.kind === 'span') {
          if (step.span.base_digest !== from.digest || !follows || !sameTable || !rises) return step;
        } else {
          if (here.record.parent.digest !== from.digest)
            fail('broken_chain', `version ${step.version} is not of its parent (CHN-1)`);
          if (!rises) fail('broken_chain', `the epoch falls at version ${step.version} (CHN-2)`);
          if (!sameTable) fail('broken_chain', `version ${step.version} has another tensor table (CHN-3)`);
          if (!follows) fail('broken_chain', `the state digest of version ${step.version} does not follow (CHN-4)`);
        }
      }
      const { rollback_of: earlier } = here.record;
      const of = earlier && on.get(earlier.version);
      if (of && (of.digest !== earlier.digest || of.record.state_digest !== here.record.state_digest)) {
        fail('broken_chain', `version ${step.version} is not the rollback that it says (CHN-6)`);
      }
      if (step.base === SOURCE) on.clear();
      on.set(step.version, here);
      before = here;
    }
    return null;
  }

  /** The error that is reported where no way is left (PLN-3, PLN-5). @param {unknown} stepFailure @returns {unknown} */
  noWay(stepFailure) {
    return (
      stepFailure ??
      this.recordFailure ??
      this.offerFailure ??
      new DeltawireError('path_lost', `no way leads to version ${this.target}`)
    );
  }
}
