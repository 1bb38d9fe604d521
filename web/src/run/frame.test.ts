import { expect, test } from 'vitest'
import { Axis, bandKey, Frame, indices, lastKnown, mostBuckets, summary } from './frame'

const frame = (step = 1000) => {
  const f = new Frame(0, 3 * step, 100)
  f.addGrid({ from: 0, step_ms: step, n: 3, series: { 4: { mean: [1, null, 3] }, 5: { mean: [7, 8, 9] } } })
  f.addBands('', { from: 0, step_ms: step, n: 3, figures: { ttft: { count: [1, 1, 1], min: [1, 1, 1], p50: [2, 2, 2], p95: [3, 3, 3], p99: [4, 4, 4], max: [5, 5, 5] } } })
  return f
}

test('an axis holds the middle of its buckets', () => {
  const a = new Axis(-1000, 500, 3)
  expect(a.x).toEqual([-750, -250, 250])
  expect(a.to).toBe(500)
  expect(a.at(-1000)).toBe(0)
  expect(a.at(499.9)).toBe(2)
  expect(a.at(500)).toBe(3)
  expect(indices(a, -5000, 0)).toEqual([0, 1])
})

test('live cells go on, come late, and leave gaps as gaps', () => {
  const f = frame()
  expect(f.push({ cells: [[4, 5000, 6], [4, 1000, 2], [9, 4000, 1]], bands: [] })).toBe(true)
  expect(f.series.get(4)?.mean).toEqual([1, 2, 3, null, null, 6])
  expect(f.series.get(5)?.mean).toEqual([7, 8, 9, null, null, null])
  expect(f.series.get(9)?.mean).toEqual([null, null, null, null, 1, null])
  expect(f.grid?.n).toBe(6)
})

test('a band that comes again replaces, never adds', () => {
  const f = frame()
  const one = (count: number, p95: number) => ({ cells: [], bands: [{ figure: 'ttft', workload: '', t: 3000, count, min: 1, p50: 2, p95, p99: 9, max: 9 }] })
  f.push(one(5, 6))
  f.push(one(8, 7))
  expect(f.bands.get(bandKey('ttft', ''))?.p95).toEqual([3, 3, 3, 7])
  expect(f.bands.get(bandKey('ttft', ''))?.count).toEqual([1, 1, 1, 8])
})

test('a workload nobody asked for stays unknown', () => {
  const f = frame()
  f.push({ cells: [], bands: [{ figure: 'ttft', workload: 'legal', t: 3000, count: 1, min: 1, p50: 1, p95: 1, p99: 1, max: 1 }] })
  expect(f.bands.has(bandKey('ttft', 'legal'))).toBe(false)
})

test('coarse buckets and overlong grids are to be read anew', () => {
  expect(frame(10_000).push({ cells: [[4, 30_000, 1]], bands: [] })).toBe(false)
  expect(frame().push({ cells: [[4, mostBuckets * 1000, 1]], bands: [] })).toBe(false)
  expect(frame().push({ cells: [[4, -1000, 1]], bands: [] })).toBe(true)
})

test('a summary is of what is known in the stretch, with the extremes of the buckets', () => {
  const a = new Axis(0, 1000, 4)
  const s = { mean: [1, null, 3, 100], min: [0, null, 2, 1], max: [2, null, 9, 200] }
  expect(summary(a, s, 0, 3000)).toEqual({ mean: 2, min: 0, max: 9, last: 3 })
  expect(summary(a, s, 1000, 2000)).toBeNull()
  // Half of the first bucket and the whole third one.
  expect(summary(a, s, 500, 3000)?.mean).toBeCloseTo((0.5 * 1 + 3) / 1.5)
})

test('the last known value is not from long ago', () => {
  const a = new Axis(0, 1000, 30)
  const v = Array<number | null>(30).fill(null)
  v[5] = 4
  expect(lastKnown(a, v, 8000)).toBe(4)
  expect(lastKnown(a, v, 20_000)).toBeNull()
  expect(lastKnown(a, v, 4000)).toBeNull()
})

test('a percentile over several cells is its highest, for it has no mean', () => {
  const f = new Frame(0, 2000, 10)
  f.addGrid({ from: 0, step_ms: 10_000, n: 2, series: { 1: { mean: [null, null], min: [1, null], max: [5, null] } } })
  expect(f.series.get(1)?.mean).toEqual([5, null])
})
