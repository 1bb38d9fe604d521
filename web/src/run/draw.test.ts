import { expect, test } from 'vitest'
import { joinMarks } from './board'
import { fewer } from './head'
import { extent, gather } from './heat'
import { logMarks, roomFor } from './plot'

test('fewer values keep their peaks', () => {
  const v = Array.from({ length: 600 }, (_, i) => (i === 333 ? 99 : i % 3 ? 1 : null))
  const f = fewer(v, 60)
  expect(f).toHaveLength(60)
  expect(f[33]).toBe(99)
  expect(fewer([null, null, null, 1], 2)).toEqual([null, 1])
})

test.each([
  [1, 10, 9, [1, 2, 5, 10]], [80, 700, 4, [100, 200, 500]], [1e-4, 10, 4, [1e-4, 1e-2, 1]], [1, 1e5, 6, [1, 10, 100, 1e3, 1e4, 1e5]],
])('marks of a log axis from %d to %d', (lo, hi, most, want) => {
  const got = logMarks(lo, hi, most)
  expect(got).toHaveLength(want.length)
  got.forEach((v, i) => expect(v / (want[i] as number)).toBeCloseTo(1, 9))
})

test('a heat map reaches from its lowest to its highest cell', () => {
  const g = { from: 0, step_ms: 1, n: 9, edges_ms: [0, 10, 20, 40, 80], cells: [0, 1, 5, 3, 2, 1] }
  expect(extent(g)).toEqual([10, 40])
  expect(extent({ ...g, cells: [0, 0, 1] })).toEqual([5, 10])
  expect(extent({ ...g, cells: [] })).toBeNull()
})

test('a mark that comes again has ended', () => {
  const m = (t: number, to: number | null, text: string) => ({ t, to, kind: 'threshold' as const, severity: 'fail' as const, text })
  expect(joinMarks([m(1, null, 'a'), m(2, null, 'b')], [m(1, 9, 'a'), m(3, null, 'c')])).toEqual([m(1, 9, 'a'), m(2, null, 'b'), m(3, null, 'c')])
})

test('fine bins of one column and row are one cell, and nothing is lost', () => {
  const g = { from: 0, step_ms: 1, n: 3, edges_ms: [10, 11, 12, 100, 110], cells: [0, 0, 2, 0, 1, 3, 2, 1, 1, 0, 3, 7] }
  const cells = gather(g, 4, (v) => (v > 50 ? 1 : 9))
  expect(cells).toEqual([0, 2, 5, 2, 2, 1, 0, 0, 7])
})

test('a word stands as far right as nothing is in its way', () => {
  const free = (from: number, to: number) => (a: number, b: number) => !(a >= from && b <= to)
  expect(roomFor(100, 0, 800, () => false)).toBe(800)
  expect(roomFor(100, 0, 800, free(0, 640))).toBe(600)
  expect(roomFor(100, 0, 800, free(0, 100))).toBe(100)
  // Where there is no room it covers what is there, at its usual place.
  expect(roomFor(100, 0, 800, () => true)).toBe(800)
  expect(roomFor(100, 0, 80, () => true)).toBe(80)
})
