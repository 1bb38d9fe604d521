import { expect, test } from 'vitest'
import { fillColumns, gatherColumns, isDense, lineColumns } from './columns'

const x = Array.from({ length: 100 }, (_, i) => i)
const ten = (v: number) => v / 10

test('a column reaches from the least to the greatest of its values and to the value before it', () => {
  const y = x.map((i) => (i === 35 ? 50 : i === 36 ? -7 : 1))
  const { low, high } = gatherColumns(x, y, 0, 99, 10, ten)
  expect([...high]).toEqual([1, 1, 1, 50, 1, 1, 1, 1, 1, 1])
  expect([...low]).toEqual([1, 1, 1, -7, 1, 1, 1, 1, 1, 1])
  const step = gatherColumns(x, x.map((i) => (i < 50 ? 0 : 8)), 0, 99, 10, ten)
  expect([step.low[4], step.high[4], step.low[5], step.high[5], step.low[6]]).toEqual([0, 0, 0, 8, 8])
})

test('what is unknown parts a line, and has no column where all of it is unknown', () => {
  const y = x.map((i) => (i >= 40 && i < 60 ? null : i < 40 ? 0 : 9))
  const { low, high } = gatherColumns(x, y, 0, 99, 10, ten)
  expect([low[3], high[3], low[6], high[6]]).toEqual([0, 0, 9, 9])
  expect([low[4], low[5], high[4], high[5]]).toEqual([NaN, NaN, NaN, NaN])
})

test('what lies outside of the plot stands at its edge', () => {
  const { high } = gatherColumns(x, x, 0, 99, 5, ten)
  expect([...high]).toEqual([9, 19, 29, 39, 99])
})

/** A plot of 100 values on 20 pixels, or on more; and what is drawn. */
function plot(width: number) {
  const drawn: number[][] = []
  const u = {
    bbox: { left: 10, top: 0, width, height: 100 }, scales: { y: { min: 0, max: 100 } }, data: [x, x], series: [{ idxs: [0, 99] }, {}],
    valToPos: (v: number, scale: string) => (scale === 'x' ? 10 + (v * width) / 100 : 100 - v),
    ctx: { fillStyle: '', fillRect: (...r: number[]) => drawn.push(r) },
  }
  return { u: u as never, drawn }
}

test('it is for more values than columns', () => {
  expect(isDense(plot(20).u, 1)).toBe(true)
  expect(isDense(plot(120).u, 1)).toBe(false)
  // A thick line has wide columns.
  expect(isDense(plot(120).u, 2)).toBe(true)
})

test('neighbours of equal height are one rectangle; gaps are none; dashes leave columns out', () => {
  const { u, drawn } = plot(20)
  const flat = new Float64Array(20).fill(40)
  flat.fill(NaN, 5, 8)
  lineColumns(u, 1, { top: flat, bottom: flat }, 'red', 2)
  expect(drawn).toEqual([[10, 39, 5, 2], [18, 39, 12, 2]])
  drawn.length = 0
  lineColumns(u, 1, { top: flat.fill(40), bottom: flat }, 'red', 2, [3, 2])
  expect(drawn).toEqual([[10, 39, 3, 2], [15, 39, 3, 2], [20, 39, 3, 2], [25, 39, 3, 2]])
  drawn.length = 0
  fillColumns(u, 1, flat, null, 'red')
  expect(drawn).toEqual([[10, 40, 20, 60]])
})
