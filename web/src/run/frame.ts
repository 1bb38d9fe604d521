// The figures of one stretch of a run on regular grids, as they came and as they go on while
// the run is live. Percentiles are taken as the server gives them, never put together here.

import type { Band, BandsGrid, EnvelopeGrid, Grid, GridSeries, Ms, Snapshot } from '../api'

type N = number | null

/** A regular grid: x holds the middle of every bucket. */
export class Axis {
  readonly x: number[] = []
  constructor(readonly from: Ms, readonly step: Ms, n: number) { this.reach(n) }

  get n() { return this.x.length }
  /** The end of the last bucket. */
  get to(): Ms { return this.from + this.n * this.step }

  /** The bucket that holds t; outside of the grid when it is below 0 or n and more. */
  at(t: Ms) { return Math.floor((t - this.from) / this.step) }

  reach(n: number) {
    for (let i = this.x.length; i < n; i++) this.x.push(this.from + (i + 0.5) * this.step)
  }
}

/** The most buckets that live data may add to one grid before it is read anew, coarser. */
export const mostBuckets = 7200

/** One stretch, at one resolution, with everything that was asked for it. */
export class Frame {
  readonly series = new Map<number, GridSeries>()
  readonly bands = new Map<string, Band>()
  readonly envelopes = new Map<string, { axis: Axis; grid: EnvelopeGrid }>()
  grid: Axis | null = null
  bandAxis: Axis | null = null
  /** Requests within every limit per second, by bucket of bandAxis; null without limits. */
  good: number[] | null = null

  constructor(readonly from: Ms, readonly to: Ms, readonly points: number) {}

  addGrid(g: Grid) {
    this.grid = new Axis(g.from, g.step_ms, g.n)
    for (const [id, s] of Object.entries(g.series)) {
      // Percentiles have no mean over several cells: their highest stands for them.
      const { max } = s
      const mean = max ? s.mean.map((v, i) => v ?? max[i] ?? null) : s.mean
      this.series.set(Number(id), { ...s, mean })
    }
  }

  addBands(workload: string, g: BandsGrid) {
    this.bandAxis = new Axis(g.from, g.step_ms, g.n)
    if (workload === '' && g.good) this.good = g.good.map((n) => (n * 1000) / g.step_ms)
    for (const [figure, b] of Object.entries(g.figures)) this.bands.set(bandKey(figure, workload), b)
  }

  addEnvelope(key: string, g: EnvelopeGrid) { this.envelopes.set(key, { axis: new Axis(g.from, g.step_ms, g.n), grid: g }) }

  /**
   * Takes what a live second brings. False when it does not fit: then the frame is to be read
   * anew. Cells may come twice and late.
   */
  push(s: Pick<Snapshot, 'cells' | 'bands'>): boolean {
    let fits = true
    for (const [id, t, v] of s.cells) {
      const axis = this.grid
      if (!axis) continue
      const i = axis.at(t)
      if (i < 0) continue
      // A bucket of several cells cannot be added to without their number.
      if (axis.step !== 1000 || i >= mostBuckets) { fits = false; continue }
      let one = this.series.get(id)
      if (!one) this.series.set(id, (one = { mean: [] }))
      axis.reach(i + 1)
      put(one.mean, i, v)
    }
    for (const b of s.bands) {
      const axis = this.bandAxis
      if (!axis) continue
      const i = axis.at(b.t)
      if (i < 0) continue
      if (axis.step !== 1000 || i >= mostBuckets) { fits = false; continue }
      const key = bandKey(b.figure, b.workload)
      let one = this.bands.get(key)
      if (!one) {
        // Only what was asked for is kept, so that a half-known course is not taken for a whole one.
        if (b.workload) continue
        this.bands.set(key, (one = { count: [], min: [], p50: [], p95: [], p99: [], max: [] }))
      }
      axis.reach(i + 1)
      for (const k of bandParts) put(one[k], i, b[k])
    }
    // Everything on an axis is as long as the axis.
    if (this.grid) for (const one of this.series.values()) fill(one.mean, this.grid.n)
    if (this.bandAxis) for (const one of this.bands.values()) for (const k of bandParts) fill(one[k], this.bandAxis.n)
    return fits
  }
}

const bandParts = ['count', 'min', 'p50', 'p95', 'p99', 'max'] as const

export const bandKey = (figure: string, workload: string) => `${figure}|${workload}`

function put(list: N[], i: number, v: N) {
  fill(list, i)
  list[i] = v
}

function fill(list: N[], n: number) { while (list.length < n) list.push(null) }

/** The first and last index of an axis that a stretch touches. */
export function indices(axis: Axis, from: Ms, to: Ms): [number, number] {
  return [Math.max(0, axis.at(from)), Math.min(axis.n - 1, axis.at(to - 1e-6))]
}

/** Mean of what is known between two times, and its extremes; null when nothing is. A bucket counts by the part of it that lies between. */
export function summary(axis: Axis, s: GridSeries, from: Ms, to: Ms): { mean: number; min: number; max: number; last: number } | null {
  const [a, b] = indices(axis, from, to)
  let sum = 0
  let n = 0
  let min = Infinity
  let max = -Infinity
  let last = NaN
  for (let i = a; i <= b; i++) {
    const v = s.mean[i]
    if (v === null || v === undefined) continue
    const part = Math.min(to, axis.from + (i + 1) * axis.step) - Math.max(from, axis.from + i * axis.step)
    sum += v * part
    n += part
    min = Math.min(min, s.min?.[i] ?? v)
    max = Math.max(max, s.max?.[i] ?? v)
    last = v
  }
  return n ? { mean: sum / n, min, max, last } : null
}

/** The last known value at or before a time, no further back than ten buckets. */
export function lastKnown(axis: Axis, values: N[], to: Ms): number | null {
  const end = Math.min(axis.n - 1, axis.at(to))
  for (let i = end; i >= 0 && i > end - 10; i--) {
    const v = values[i]
    if (v !== null && v !== undefined) return v
  }
  return null
}
