import { expect, test } from 'vitest'
import { Axis } from './frame'
import { rowsOf } from './table'

const n = 1000
const axis = new Axis(0, 1000, n)
const flat = Array.from({ length: n }, (_, i): number | null => (i % 10 === 3 ? null : 5))

test('few buckets are a row each, and what is unknown is none', () => {
  const { rows, span } = rowsOf(axis, [{ name: 'v', value: flat, mean: true }], 0, 20_000)
  expect(span).toBe(1000)
  expect(rows.map((r) => r.from)).toEqual(Array.from({ length: 20 }, (_, i) => i * 1000))
  expect(rows[3]?.cells).toEqual([null])
  expect(rows[4]?.cells).toEqual([{ low: 5, high: 5, mean: 5 }])
})

test.each([[0, n * 1000, 240], [0, n * 1000, 7], [3500, 777_200, 240], [1234, 241_234, 240], [999_000, 1e9, 240]])('every instant from %d to %d is in exactly one of at most %d rows', (from, to, most) => {
  const { rows } = rowsOf(axis, [], from, to, most)
  expect(rows.length).toBeLessThanOrEqual(most)
  expect(rows[0]?.from).toBeLessThanOrEqual(from)
  expect(rows.at(-1)?.to).toBeGreaterThanOrEqual(Math.min(to, axis.to))
  for (let i = 1; i < rows.length; i++) expect(rows[i]?.from).toBe(rows[i - 1]?.to)
})

test('one value that stands out is in the table wherever it lies', () => {
  for (const at of [0, 1, 7, 499, 500, 998, 999]) {
    const value = [...flat]
    value[at] = 900
    const { rows } = rowsOf(axis, [{ name: 'p99', value, mean: false }], 0, n * 1000, 20)
    expect(rows.filter((r) => r.cells[0]?.high === 900).map((r) => r.from <= at * 1000 && at * 1000 < r.to)).toEqual([true])
    expect(rows[0]?.cells[0]?.mean).toBeNull()
  }
})

test('a bucket of several cells keeps their extremes beside its mean', () => {
  const { rows } = rowsOf(axis, [{ name: 'v', value: flat, low: flat.map((v) => v && 1), high: flat.map((v) => v && 9), mean: true }], 0, 1000)
  expect(rows[0]?.cells).toEqual([{ low: 1, high: 9, mean: 5 }])
})

test('rows stay where they are while time goes on', () => {
  const before = rowsOf(axis, [], 0, 700_000).rows.slice(0, -1)
  expect(rowsOf(axis, [], 0, 712_000).rows.slice(0, before.length)).toEqual(before)
})
